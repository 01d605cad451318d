// SPDX-License-Identifier: Apache-2.0
#include "mount_options.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "cli/suggestions.h"
#include "fuse/mount.h"

namespace sandbar::tools {
namespace {

constexpr std::uint64_t kMaxTimeout = 86400;
constexpr std::uint64_t kMinRead = 4096;
constexpr std::uint64_t kMaxRead = 1024 * 1024;

/// mount(8) and fstab use these for themselves, or they are so anyway: taken and left out. "user" may have a value.
const std::vector<std::string>& ignored() {
  static const std::vector<std::string> names{"defaults",    "auto",          "noauto",   "user",
                                              "nouser",      "users",         "nousers",  "owner",
                                              "noowner",     "group",         "nogroup",  "nofail",
                                              "_netdev",     "nosuid",        "nodev",    "default_permissions",
                                              "relatime",    "norelatime",    "diratime", "nodiratime",
                                              "strictatime", "nostrictatime", "lazytime", "nolazytime",
                                              "silent",      "loud",          "iversion", "noiversion",
                                              "mand",        "nomand",        "uhelper",  "helper"};
  return names;
}

const std::vector<std::string>& own() {
  static const std::vector<std::string> names{"token_file",  "grant_command", "timeout",     "idmap",
                                              "symlinks",    "nonempty",      "allow_other", "max_read",
                                              "nosymfollow", "ca_file",       "insecure"};
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Error wrong(const std::string& what) { return make_error(Errc::invalid, "-o", what); }

struct Option {
  std::string name;
  std::optional<std::string> value;
  [[nodiscard]] std::string shown() const { return base::printable(value ? name + "=" + *value : name); }
};

/// At commas that no backslash precedes. The backslash goes, except before other characters (\040 of an fstab is undone
/// by mount(8)).
std::vector<Option> split(std::string_view text) {
  std::vector<Option> options;
  Option option;
  const auto finish = [&] {
    if (!option.name.empty() || option.value) options.push_back(std::move(option));
    option = {};
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\\' && i + 1 < text.size() && (text[i + 1] == ',' || text[i + 1] == '\\')) {
      c = text[++i];
    } else if (c == ',') {
      finish();
      continue;
    } else if (c == '=' && !option.value) {
      option.value.emplace();
      continue;
    }
    (option.value ? *option.value : option.name) += c;
  }
  finish();
  return options;
}

Result<std::uint64_t> number(const Option& option, std::uint64_t least, std::uint64_t most, const std::string& unit) {
  std::uint64_t value = 0;
  const std::string& text = *option.value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return wrong(option.shown() + ": expected a number of " + unit + " between " + std::to_string(least) + " and " +
                 std::to_string(most));
  return value;
}

Result<void> apply_max_read(const Option& option, MountRequest& request) {
  auto value = number(option, kMinRead, kMaxRead, "bytes");
  if (!value) return std::move(value).error();
  if (*value % kMinRead != 0) return wrong(option.shown() + ": expected a multiple of 4096");
  request.max_read = static_cast<std::uint32_t>(*value);
  return {};
}

/// A file is told from a word by its slash, so that a word with a slip is not looked for as a file.
Result<void> apply_id_map(const Option& option, MountRequest& request) {
  const bool is_file = option.value->find('/') != std::string::npos;
  if (!is_file && *option.value != "user" && *option.value != "none")
    return wrong(option.shown() + ": expected idmap=user, idmap=none, or a map file with a slash in its name (./" +
                 base::printable(*option.value) + ")");
  request.id_map = is_file                   ? vfs::IdMapMode::ranges
                   : *option.value == "user" ? vfs::IdMapMode::user
                                             : vfs::IdMapMode::none;
  request.id_map_file = is_file ? *option.value : "";
  return {};
}

/// An option with a value.
Result<void> apply_value(const Option& option, MountRequest& request) {
  if (option.value->empty()) return wrong(option.name + " needs a value: " + option.name + "=...");
  if (option.name == "max_read") return apply_max_read(option, request);
  if (option.name == "token_file") {
    request.token_file = *option.value;
    return {};
  }
  if (option.name == "ca_file") {
    request.ca_file = *option.value;
    return {};
  }
  if (option.name == "grant_command") {
    request.grant_command = *option.value;
    return {};
  }
  if (option.name == "timeout") {
    auto value = number(option, 1, kMaxTimeout, "seconds");
    if (!value) return std::move(value).error();
    request.timeout_seconds = *value;
    return {};
  }
  if (option.name == "symlinks") {
    if (*option.value != "safe" && *option.value != "raw")
      return wrong(option.shown() + ": expected symlinks=safe or symlinks=raw");
    request.safe_links = *option.value == "safe";
    return {};
  }
  return apply_id_map(option, request);
}

Error unknown(const Option& option) {
  if (option.name == "suid" || option.name == "dev")
    return wrong(option.name + ": a Sandbar mount is always nosuid and nodev; leave it out");
  if (option.name == "remount") return wrong("remount: not supported; unmount, then mount again");
  if (option.name == "fsname" || option.name == "subtype")
    return wrong(option.name + ": sandbox-mount sets it itself; leave it out");
  std::vector<std::string> names = own();
  names.insert(names.end(), fuse::flag_names().begin(), fuse::flag_names().end());
  const std::string meant = cli::nearest(option.name, names);
  return wrong("there is no mount option " + option.shown() + (meant.empty() ? "" : "; did you mean " + meant + "?"));
}

Result<void> apply(const Option& option, bool sloppy, MountRequest& request) {
  static const std::vector<std::string> with_value{"token_file", "grant_command", "timeout", "idmap",
                                                   "symlinks",   "max_read",      "ca_file"};
  if (contains(with_value, option.name)) {
    return apply_value(option.value ? option : Option{option.name, ""}, request);
  }
  if (contains(ignored(), option.name) || option.name == "comment" || option.name.starts_with("x-") ||
      option.name.starts_with("X-"))
    return {};
  const bool flag = contains(fuse::flag_names(), option.name);
  if (flag || option.name == "insecure" || option.name == "nonempty" || option.name == "allow_other" ||
      option.name == "nosymfollow") {
    if (option.value) return wrong(option.name + " has no value");
  } else {
    return sloppy ? Result<void>() : unknown(option);
  }
  if (option.name == "insecure") request.insecure = true;
  if (option.name == "nonempty") request.nonempty = true;
  if (option.name == "allow_other") request.allow_other = true;
  if (option.name == "nosymfollow") request.no_symlink_follow = true;
  if (option.name == "ro" || option.name == "rw") request.read_only = option.name == "ro";
  if (flag) request.flags.push_back(option.name);
  return {};
}

}  // namespace

Result<void> parse_mount_options(std::string_view text, bool sloppy, MountRequest& request) {
  for (const Option& option : split(text))
    if (auto applied = apply(option, sloppy, request); !applied) return applied;
  return {};
}

std::vector<cli::HelpRow> mount_option_rows() {
  return {
      {"token_file=FILE", "as --token-file; a comma in FILE is written \\,"},
      {"grant_command=CMD", "as --grant-command; a comma in CMD is written \\,"},
      {"ca_file=FILE", "as --ca-file"},
      {"insecure", "as --insecure"},
      {"timeout=SECONDS", "how long an operation may wait for the sandbox before it fails (1..86400; 60)"},
      {"idmap=user|none|FILE",
       "user: your files are the agent's and the other way round (default); none: numbers as they are; FILE (with a "
       "slash): lines of uid|gid LOCAL REMOTE [COUNT]"},
      {"allow_other", "other users see the mount too, each with their own permissions"},
      {"symlinks=safe|raw",
       "safe: each symbolic link is shown so that it stays in the mount (default); raw: as the sandbox stores it"},
      {"nosymfollow", "links can be read, but the kernel follows none (root only)"},
      {"nonempty", "mount over a directory that is not empty"},
      {"max_read=BYTES", "the largest single read (4096..1048576)"},
      {"ro, rw", "read only; read and write (default)"},
      {"exec, noexec", "programs may be run from the mount (default), or not"},
      {"atime, noatime", "passed on to the kernel"},
      {"sync, async, dirsync", "passed on to the kernel"},
  };
}

}  // namespace sandbar::tools
