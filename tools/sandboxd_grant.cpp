// SPDX-License-Identifier: Apache-2.0
#include "sandboxd_grant.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <ostream>

#include "base/duration.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/json.h"
#include "cli/output.h"
#include "grant/token.h"

namespace sandbar::tools {
namespace {

constexpr const char* kProgram = "sandboxd";

int fail(cli::Io io, const Error& error, bool json = false) {
  if (json) io.out << cli::error_json(error) << '\n' << std::flush;
  cli::print_error(io.err, kProgram, error);
  return 1;
}

template <class N>
bool parse_number(std::string_view text, N& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

/// False where one is no id. What is -1 means "no id" to the kernel.
bool parse_ids(const std::vector<std::string>& words, std::optional<std::vector<std::uint32_t>>& into,
               std::string& wrong) {
  for (const std::string& word : words) {
    std::uint32_t id = 0;
    wrong = word;
    if (!parse_number(word, id) || id == std::numeric_limits<std::uint32_t>::max()) return false;
    if (!into) into.emplace();
    into->push_back(id);
  }
  return true;
}

/// Who signs, where nobody is named: a grant without a name would share its sessions with all others without one.
std::string login_name() {
  std::array<char, 4096> space{};
  passwd entry{};
  passwd* found = nullptr;
  const uid_t uid = ::getuid();
  if (::getpwuid_r(uid, &entry, space.data(), space.size(), &found) == 0 && found != nullptr) return entry.pw_name;
  return "uid-" + std::to_string(uid);
}

/// The grant as the command line has it; nullopt after a usage error, with its code.
std::optional<grant::Grant> grant_of(const cli::App& app, const GrantArguments& arguments, cli::Io io, int& code) {
  const auto usage = [&](const std::string& what, const std::string& wrong = {}, const std::string& instead = {}) {
    code = app.usage_error(io, what, wrong, instead);
    return std::nullopt;
  };
  if (!arguments.key) return usage("--key FILE is missing: the private key to sign with (sandboxd keygen makes one)");
  if (arguments.kind.empty()) return usage("--kind is missing: files, shell or port");
  grant::Grant grant;
  grant.kind = *grant::kind_from_name(arguments.kind);  // the option takes these words only
  if (grant.kind == grant::Kind::port && arguments.port == 0) return usage("--kind port needs --port N");
  if (grant.kind != grant::Kind::port && arguments.port != 0) return usage("--port is for --kind port");
  grant.port = static_cast<std::uint16_t>(arguments.port);
  grant.sandbox = arguments.sandbox;
  grant.subject = arguments.subject ? *arguments.subject : login_name();
  std::string wrong;
  if (!parse_ids(arguments.uids, grant.uids, wrong))
    return usage("--uid takes a number: a user's in the sandbox", wrong, "N");
  if (!parse_ids(arguments.gids, grant.gids, wrong))
    return usage("--gid takes a number: a group's in the sandbox", wrong, "N");
  const auto ttl = parse_ttl(arguments.ttl);
  if (!ttl) return usage("--ttl: " + ttl.error().detail, arguments.ttl, "10m");
  grant.issued = grant::unix_now();
  grant.expires = grant.issued + *ttl;
  if (auto right = grant::check(grant); !right) return usage(right.error().detail);
  return grant;
}

/// A new file with these bytes on the disk; nothing where it fails.
Result<void> write_new(const std::string& path, std::string_view bytes, mode_t mode) {
  const std::string operation = "write " + base::printable(path);
  const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd && errno == EEXIST)
    return make_error(Errc::invalid, operation, "it exists already; choose another name, or remove it first");
  if (!fd) return os_error(errno, operation);
  // Whatever the umask is; and the bytes are small enough for one write.
  const bool written = ::fchmod(fd.get(), mode) == 0 &&
                       ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
                       ::fsync(fd.get()) == 0;
  if (written) return {};
  const int error = errno;
  ::unlink(path.c_str());
  return os_error(error, operation);
}

}  // namespace

Result<std::int64_t> parse_ttl(std::string_view text) {
  using std::chrono::seconds;
  // In whole seconds: that is what a grant has.
  const auto time = text.ends_with("ms") ? std::nullopt : base::parse_duration(text);
  if (time && *time >= seconds(1) && *time <= seconds(grant::kMaxLife))
    return std::chrono::duration_cast<seconds>(*time).count();
  return make_error(Errc::invalid, "parse a time", "expected a time of 1s to 30d, such as 90s, 10m, 1h or 7d");
}

void declare_grant(cli::App& app, GrantArguments& into) {
  app.option("--key", into.key, "FILE", "the private key to sign with; only its owner may have rights on it")
      .choice("--kind", into.kind, {"files", "shell", "port"},
              "what it allows: files (a mount), shell (commands), port (one TCP port)")
      .number("--port", into.port, "N", "with --kind port: which one", 1, 65535)
      .option("--sandbox", into.sandbox, "ID", "for the agent that was started with --sandbox ID only")
      .option("--subject", into.subject, "NAME", "whom it is for; sessions belong to a subject (your login name)")
      .option("--uid", into.uids, "N", "it may act as this user of the sandbox only; may be given again")
      .option("--gid", into.gids, "N",
              "with --uid: and with this group (the same numbers as --uid); may be given again")
      .option("--ttl", into.ttl, "TIME", "how long it is good: 90s, 10m, 1h, at most 30d (10m)")
      .choice("-o", into.output, {"json"}, "print {\"token\",\"expires_at\",\"key_id\"} instead of the token")
      .section("Exit codes", "0 done, 1 failed, 2 usage.")
      .section("Examples",
               "  sandboxd keygen --key grants.key\n"
               "  sandboxd agent --root /srv --listen 127.0.0.1:7070 --grant-pubkey grants.key.pub\n"
               "  sandboxd grant --key grants.key --kind files --ttl 1h >token");
}

int run_grant(const cli::App& app, const GrantArguments& arguments, cli::Io io) {
  int code = 0;
  const bool json = arguments.output == "json";
  const auto grant = grant_of(app, arguments, io, code);
  if (!grant) return code;
  auto key = grant::PrivateKey::read_file(*arguments.key);
  if (!key) return fail(io, key.error(), json);
  auto token = grant::mint(*grant, *key);
  if (!token) return fail(io, token.error(), json);
  if (json) {
    cli::JsonObject result;
    result.field("token", *token).field("expires_at", grant->expires).field("key_id", key->id());
    io.out << result.text() << '\n' << std::flush;
  } else {
    io.out << *token << '\n' << std::flush;
  }
  return io.out ? 0 : fail(io, make_error(Errc::invalid, "print the token", "stdout does not take it"));
}

void declare_keygen(cli::App& app, KeygenArguments& into) {
  app.option("--key", into.key, "FILE", "where to write the private key; the public one is written to FILE.pub")
      .section("Exit codes", "0 done, 1 failed, 2 usage.");
}

int run_keygen(const cli::App& app, const KeygenArguments& arguments, cli::Io io) {
  if (!arguments.key || arguments.key->empty())
    return app.usage_error(io, "--key FILE is missing: where to write the private key");
  const std::string public_file = *arguments.key + ".pub";
  const auto key = grant::PrivateKey::generate();
  // The public one first: where it is in the way, no secret was written.
  if (auto written = write_new(public_file, key.public_pem(), 0644); !written) return fail(io, written.error());
  if (auto written = write_new(*arguments.key, key.pem(), 0600); !written) {
    ::unlink(public_file.c_str());
    return fail(io, written.error());
  }
  io.out << "key " << key.id() << " in " << base::printable(*arguments.key) << "; agents get "
         << base::printable(public_file) << '\n'
         << std::flush;
  return 0;
}

}  // namespace sandbar::tools
