// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <ostream>

#include "base/assert.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/suggestions.h"

namespace sandbar::cli {
namespace {

using Words = std::vector<std::string>;

bool looks_like_option(const std::string& word) { return word.size() > 1 && word.front() == '-'; }

Words split_names(const std::string& names) {
  Words all;
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    all.push_back(names.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

std::string joined(const Words& words, std::string_view between) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

Words replaced(Words words, const std::string& wrong, const Words& instead) {
  const auto at = std::find(words.begin(), words.end(), wrong);
  if (at == words.end()) return {};
  const auto hole = words.erase(at);
  words.insert(hole, instead.begin(), instead.end());
  return words;
}

/// CLI11 would take the next word for the value of "--cwd=".
Words with_empty_values_apart(const Words& words) {
  Words all;
  for (const auto& word : words) {
    const bool empty_value = word.starts_with("--") && word.size() > 3 && word.find('=') == word.size() - 1;
    all.push_back(empty_value ? word.substr(0, word.size() - 1) : word);
    if (empty_value) all.emplace_back();
  }
  return all;
}

}  // namespace

struct App::Option {
  Words names;
  std::string value;  ///< the value's name; empty for a flag
  std::string help;
  std::function<std::string(const Words&)> apply;  ///< the error, or empty
  CLI::Option* parsed = nullptr;
};

struct App::Parts {
  struct Argument {
    std::string name;
    std::string help;
    bool required = true;
    std::function<void(std::string)> set;
  };

  explicit Parts(AppSpec from) : spec(std::move(from)) {}

  [[nodiscard]] std::string root_program() const { return spec.program.substr(0, spec.program.find(' ')); }
  [[nodiscard]] Words option_names() const;
  [[nodiscard]] Words line() const;
  [[nodiscard]] std::string usage() const;

  AppSpec spec;
  CLI::App parser;
  std::vector<std::unique_ptr<Option>> options;
  std::vector<Argument> arguments;
  std::vector<std::pair<std::string, std::unique_ptr<App>>> verbs;
  std::vector<HelpSection> sections;
  bool help = false;
  bool version = false;

  Words before;  ///< the words before `--`, as typed
  Words after;
  bool dashes = false;
  std::string chosen;
};

Words App::Parts::option_names() const {
  Words names;
  for (const auto& option : options) names.insert(names.end(), option->names.begin(), option->names.end());
  return names;
}

/// What was typed, the program's words first.
Words App::Parts::line() const {
  Words words = {root_program()};
  if (spec.program.size() > words.front().size()) words.push_back(spec.program.substr(words.front().size() + 1));
  words.insert(words.end(), before.begin(), before.end());
  if (dashes) words.emplace_back("--");
  words.insert(words.end(), after.begin(), after.end());
  return words;
}

std::string App::Parts::usage() const {
  std::string text = spec.program + (verbs.empty() ? " [options]" : " COMMAND [options]");
  for (const auto& argument : arguments) text += argument.required ? " " + argument.name : " [" + argument.name + "]";
  if (!spec.rest.empty()) text += " -- " + spec.rest;
  return text;
}

App::App(AppSpec spec) : parts_(std::make_unique<Parts>(std::move(spec))) {
  parts_->parser.set_help_flag();
  parts_->parser.allow_extras();
  flag("-h,--help", parts_->help, "show this help");
  flag("--version", parts_->version, "show the version");
}

App::~App() = default;

App& App::add(const std::string& names, const std::string& value, const std::string& help, bool is_flag,
              std::function<std::string(const Words&)> apply) {
  auto option = std::make_unique<Option>(Option{split_names(names), value, help, std::move(apply)});
  if (is_flag) {
    option->parsed = parts_->parser.add_flag(names)->disable_flag_override();
  } else {
    option->parsed = parts_->parser.add_option(names)->type_size(1)->expected(1)->allow_extra_args(false);
  }
  option->parsed->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  // --help and --version are declared first and shown last.
  const bool always = parts_->options.size() < 2;
  parts_->options.insert(always ? parts_->options.end() : parts_->options.end() - 2, std::move(option));
  return *this;
}

App& App::flag(const std::string& names, bool& into, const std::string& help) {
  return add(names, "", help, true, [&into](const Words&) {
    into = true;
    return std::string();
  });
}

App& App::option(const std::string& names, std::string& into, const std::string& value, const std::string& help) {
  return add(names, value, help, false, [&into](const Words& values) {
    into = values.back();
    return std::string();
  });
}

App& App::option(const std::string& names, std::optional<std::string>& into, const std::string& value,
                 const std::string& help) {
  return add(names, value, help, false, [&into](const Words& values) {
    into = values.back();
    return std::string();
  });
}

App& App::option(const std::string& names, Words& into, const std::string& value, const std::string& help) {
  return add(names, value, help, false, [&into](const Words& values) {
    into = values;
    return std::string();
  });
}

App& App::number(const std::string& names, std::uint64_t& into, const std::string& value, const std::string& help,
                 std::uint64_t least, std::uint64_t most) {
  return add(names, value, help, false, [&into, least, most](const Words& values) {
    const std::string& text = values.back();
    std::uint64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = failure == std::errc{} && end == text.data() + text.size();
    if (!whole || number < least || number > most) {
      return "'" + text + "' is not a number between " + std::to_string(least) + " and " + std::to_string(most);
    }
    into = number;
    return std::string();
  });
}

App& App::choice(const std::string& names, std::string& into, const Words& words, const std::string& help) {
  return add(names, joined(words, "|"), help, false, [&into, words](const Words& values) {
    if (std::find(words.begin(), words.end(), values.back()) == words.end()) {
      return "'" + values.back() + "' is none of " + joined(words, ", ");
    }
    into = values.back();
    return std::string();
  });
}

App& App::argument(const std::string& name, std::string& into, const std::string& help) {
  SANDBAR_ASSERT(parts_->arguments.empty() || parts_->arguments.back().required);
  parts_->arguments.push_back({name, help, true, [&into](std::string word) { into = std::move(word); }});
  return *this;
}

App& App::argument(const std::string& name, std::optional<std::string>& into, const std::string& help) {
  parts_->arguments.push_back({name, help, false, [&into](std::string word) { into = std::move(word); }});
  return *this;
}

App& App::verb(const std::string& name, const std::string& summary) {
  AppSpec spec{.program = parts_->spec.program + ' ' + name, .summary = summary, .usage_code = parts_->spec.usage_code};
  return *parts_->verbs.emplace_back(name, std::make_unique<App>(std::move(spec))).second;
}

App& App::section(const std::string& title, std::vector<HelpRow> rows) {
  parts_->sections.push_back({title, std::move(rows), {}});
  return *this;
}

App& App::section(const std::string& title, const std::string& text) {
  parts_->sections.push_back({title, {}, text});
  return *this;
}

const std::string& App::chosen() const { return parts_->chosen; }
const Words& App::rest() const { return parts_->after; }
bool App::has_rest() const { return parts_->dashes; }
const std::string& App::program() const { return parts_->spec.program; }

std::string App::help() const {
  HelpPage page{parts_->usage(), parts_->spec.summary, {}};
  HelpSection commands{"Commands", {}, {}};
  for (const auto& [name, verb] : parts_->verbs) commands.rows.push_back({name, verb->parts_->spec.summary});
  HelpSection arguments{"Arguments", {}, {}};
  for (const auto& argument : parts_->arguments) arguments.rows.push_back({argument.name, argument.help});
  HelpSection options{"Options", {}, {}};
  for (const auto& option : parts_->options) {
    options.rows.push_back(
        {joined(option->names, ", ") + (option->value.empty() ? "" : " " + option->value), option->help});
  }
  page.sections = {commands, arguments, options};
  page.sections.insert(page.sections.end(), parts_->sections.begin(), parts_->sections.end());
  return render(page);
}

std::optional<int> App::parse(int argc, const char* const* argv, Io io) {
  return parse_words(argc > 1 ? Words(argv + 1, argv + argc) : Words(), io);
}

std::optional<int> App::parse_words(Words words, Io io) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  parts_->dashes = dashes != words.end();
  parts_->before = Words(words.begin(), dashes);
  if (parts_->dashes) parts_->after = Words(dashes + 1, words.end());
  if (!parts_->verbs.empty()) {
    const auto& before = parts_->before;
    if (std::any_of(before.begin(), before.end(), [](const auto& word) { return !looks_like_option(word); })) {
      return parse_verb(io);
    }
  }
  auto reversed = with_empty_values_apart(parts_->before);  // CLI11 takes the words from the back
  std::reverse(reversed.begin(), reversed.end());
  try {
    parts_->parser.parse(reversed);
  } catch (const CLI::ArgumentMismatch&) {
    return missing_value(io);
  } catch (const CLI::ParseError& failure) {
    return print_usage_error(io, failure.what(), "", "");
  }
  for (const auto& option : parts_->options) {
    if (option->parsed->count() == 0) continue;
    const std::string wrong = option->apply(option->parsed->results());
    if (!wrong.empty()) return print_usage_error(io, option->names.back() + ": " + wrong, "", "");
  }
  return bind_arguments(parts_->parser.remaining(), io);
}

std::optional<int> App::parse_verb(Io io) {
  auto& before = parts_->before;
  const auto at = std::find_if_not(before.begin(), before.end(), looks_like_option);
  Words names;
  for (const auto& [name, verb] : parts_->verbs) {
    names.push_back(name);
    if (name != *at) continue;
    parts_->chosen = name;
    Words words = before;
    words.erase(words.begin() + (at - before.begin()));
    if (parts_->dashes) words.emplace_back("--");
    words.insert(words.end(), parts_->after.begin(), parts_->after.end());
    return verb->parse_words(std::move(words), io);
  }
  const std::string meant = nearest(*at, names);
  const std::string what = "unknown command " + shell_quote(*at);
  const Words line = meant.empty() ? Words() : replaced(parts_->line(), *at, {meant});
  return print_usage_error(io, what, meant, shell_line(line));
}

std::optional<int> App::bind_arguments(Words extras, Io io) {
  if (parts_->help) {
    io.out << help() << std::flush;
    return 0;
  }
  if (parts_->version) {
    io.out << parts_->root_program() << ' ' << SANDBAR_VERSION << '\n' << std::flush;
    return 0;
  }
  std::size_t taken = 0;
  const auto take = [&](const std::string& word) {
    if (taken == parts_->arguments.size()) return false;
    parts_->arguments[taken++].set(word);
    return true;
  };
  for (const auto& word : extras) {
    if (looks_like_option(word)) return unknown_option(io, word);
    if (!take(word)) return surplus(io, word);
  }
  if (parts_->spec.rest.empty()) {
    for (const auto& word : parts_->after) {
      if (!take(word)) return surplus(io, word);
    }
  }
  if (!parts_->verbs.empty()) return missing_verb(io);
  for (; taken < parts_->arguments.size(); ++taken) {
    if (parts_->arguments[taken].required) return missing_argument(io, parts_->arguments[taken].name);
  }
  return std::nullopt;
}

int App::surplus(Io io, const std::string& word) const {
  const std::string quoted = shell_quote(word);
  if (!parts_->spec.rest.empty()) {
    const std::string line = parts_->dashes ? "" : shell_line(replaced(parts_->line(), word, {"--", word}));
    return print_usage_error(io, quoted + " is one argument too many: the command comes after --", "", line);
  }
  return print_usage_error(io, quoted + " is one argument too many", "",
                           shell_line(replaced(parts_->line(), word, {})));
}

int App::unknown_option(Io io, const std::string& word) const {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string name = word.substr(0, equals);
  std::string typed = word;
  std::string meant = nearest(name, parts_->option_names());
  // "-token-file": CLI11 reads it as single letters and complains of the first that is none.
  for (const auto& known : parts_->option_names()) {
    const auto& before = parts_->before;
    const bool one_dash =
        known.starts_with("--") && std::find(before.begin(), before.end(), known.substr(1)) != before.end();
    if (one_dash) meant = known, typed = known.substr(1);
  }
  const std::string value = typed == word ? word.substr(equals) : "";
  const Words line = meant.empty() ? Words() : replaced(parts_->line(), typed, {meant + value});
  return print_usage_error(io, "unknown option " + (typed == word ? name : typed), meant, shell_line(line));
}

int App::missing_value(Io io) const {
  const std::string last = parts_->before.empty() ? "" : parts_->before.back();
  for (const auto& option : parts_->options) {
    if (option->value.empty()) {
      // The only other mismatch: a flag that was given a value.
      for (const auto& word : parts_->before) {
        const std::string name = word.substr(0, word.find('='));
        const bool ours = std::find(option->names.begin(), option->names.end(), name) != option->names.end();
        if (!ours || name == word) continue;
        return print_usage_error(io, name + " takes no value", "", shell_line(replaced(parts_->line(), word, {name})));
      }
      continue;
    }
    if (std::find(option->names.begin(), option->names.end(), last) == option->names.end()) continue;
    const std::string what = last + " needs a value";
    // The value's name is for people, so it is not quoted as a word would be.
    Words line = parts_->line();
    line.erase(std::find(line.begin(), line.end(), "--"), line.end());
    return print_usage_error(io, what, "", shell_line(line) + ' ' + option->value);
  }
  return print_usage_error(io, "an option's value is missing", "", "");
}

int App::missing_verb(Io io) const {
  Words names;
  for (const auto& [name, verb] : parts_->verbs) names.push_back(name);
  return print_usage_error(io, "a command is missing: " + joined(names, ", "), "", "");
}

int App::missing_argument(Io io, const std::string& name) const {
  return print_usage_error(io, name + " is missing", "", parts_->usage());
}

int App::usage_error(Io io, std::string_view what, const std::string& wrong, const std::string& instead) const {
  if (instead.empty()) return print_usage_error(io, what, "", "");
  return print_usage_error(io, what, instead, shell_line(replaced(parts_->line(), wrong, {instead})));
}

int App::print_usage_error(Io io, std::string_view what, const std::string& meant, const std::string& line) const {
  std::string message(what);
  if (!meant.empty()) message += "; did you mean " + meant + "?";
  print_error(io.err, parts_->root_program(), message);
  const std::string shown = line.empty() ? "see: " + parts_->spec.program + " --help" : line;
  io.err << "  " << base::printable(shown) << '\n' << std::flush;
  return parts_->spec.usage_code;
}

}  // namespace sandbar::cli
