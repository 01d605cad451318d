// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help.h"
#include "cli/io.h"

namespace sandbar::cli {

struct AppSpec {
  std::string program;  ///< "sandbox-exec"; of a verb "sandboxd agent"
  std::string summary;  ///< one paragraph for --help
  /// How the words after `--` are shown in the usage line: "CMD [ARG...]". They are then kept apart, in rest(). Empty:
  /// words after `--` are further arguments, even where they begin with '-'.
  std::string rest = {};
  int usage_code = 2;  ///< the exit code of a usage error (sandbox-exec: 125)
};

/// A tool's command line. Declare, then parse; the declared variables are set when parse() returns nothing:
///
///   cli::App app({.program = "sandbox-mount", .summary = "Mounts ..."});
///   app.argument("TARGET", target, "which sandbox ...").argument("DIR", dir, "...");
///   app.option("-o", options, "OPT[,OPT...]", "mount options, see below").flag("-f,--foreground", foreground, "stay");
///   if (const auto code = app.parse(argc, argv, io)) return *code;
///
/// Options stand anywhere before `--`, also after arguments; `--help` and `--version` are always there. Nothing but
/// usage is checked here, and nothing before it. A usage error is two lines on io.err: what is wrong and what was
/// probably meant, then the corrected line. Not thread-safe. Variables must outlive parse().
class App {
 public:
  explicit App(AppSpec spec);
  App(const App&) = delete;
  App& operator=(const App&) = delete;
  ~App();

  /// `names` as "-f,--foreground". Given twice is the same as once.
  App& flag(const std::string& names, bool& into, const std::string& help);
  /// An option with a value; given twice, the last counts. `value` is the value's name: "FILE".
  App& option(const std::string& names, std::string& into, const std::string& value, const std::string& help);
  App& option(const std::string& names, std::optional<std::string>& into, const std::string& value,
              const std::string& help);
  /// Each time it is given adds one value.
  App& option(const std::string& names, std::vector<std::string>& into, const std::string& value,
              const std::string& help);
  /// A decimal number between `least` and `most`; anything else is a usage error.
  App& number(const std::string& names, std::uint64_t& into, const std::string& value, const std::string& help,
              std::uint64_t least = 0, std::uint64_t most = UINT64_MAX);
  /// One of a few words.
  App& choice(const std::string& names, std::string& into, const std::vector<std::string>& words,
              const std::string& help);

  /// The next argument, which must be given.
  App& argument(const std::string& name, std::string& into, const std::string& help);
  /// The next argument, which may be left out; only after those that must be given.
  App& argument(const std::string& name, std::optional<std::string>& into, const std::string& help);

  /// A verb ("agent"), which has options and arguments of its own. An App with verbs has no arguments, and one of them
  /// must be given. The reference is good as long as this App.
  App& verb(const std::string& name, const std::string& summary);
  /// The verb that was given; empty where there are none.
  [[nodiscard]] const std::string& chosen() const;

  /// More of the --help page: rows (mount options), or paragraphs (exit codes, examples).
  App& section(const std::string& title, std::vector<HelpRow> rows);
  App& section(const std::string& title, const std::string& text);

  /// Nothing: go on. Otherwise the exit code: help or version was shown (0), or a usage error was.
  std::optional<int> parse(int argc, const char* const* argv, Io io);

  /// The words after `--` of an AppSpec with `rest`.
  [[nodiscard]] const std::vector<std::string>& rest() const;
  /// True when `--` was given: tells `sandbox-exec T --` from `sandbox-exec T`.
  [[nodiscard]] bool has_rest() const;

  /// Prints a usage error that the tool found itself (a TARGET that does not parse), after parse(). `instead` replaces
  /// `wrong` in the corrected line; where it is empty the line is a pointer to --help. Returns the exit code.
  int usage_error(Io io, std::string_view what, const std::string& wrong = {}, const std::string& instead = {}) const;

  [[nodiscard]] const std::string& program() const;
  [[nodiscard]] std::string help() const;

 private:
  struct Option;
  struct Parts;

  App& add(const std::string& names, const std::string& value, const std::string& help, bool is_flag,
           std::function<std::string(const std::vector<std::string>&)> apply);
  std::optional<int> parse_words(std::vector<std::string> words, Io io);
  std::optional<int> parse_verb(Io io);
  std::optional<int> bind_arguments(std::vector<std::string> extras, Io io);
  int surplus(Io io, const std::string& word) const;
  int unknown_option(Io io, const std::string& word) const;
  int missing_value(Io io) const;
  int missing_verb(Io io) const;
  int missing_argument(Io io, const std::string& name) const;
  int print_usage_error(Io io, std::string_view what, const std::string& meant, const std::string& line) const;

  std::unique_ptr<Parts> parts_;
};

}  // namespace sandbar::cli
