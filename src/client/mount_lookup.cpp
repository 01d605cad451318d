// SPDX-License-Identifier: Apache-2.0
#include "client/mount_lookup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/text.h"

namespace sandbar::client {
namespace {

/// XATTR_SIZE_MAX of Linux.
constexpr std::size_t kMaxXattr = 64 * 1024;

bool is_octal(char c) { return c >= '0' && c <= '7'; }

/// The kernel writes space, tab, newline and backslash as \ooo (seq_path's mangle, proc(5)).
std::string unescaped(std::string_view field) {
  std::string plain;
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && field.size() - i >= 4 && is_octal(field[i + 1]) && is_octal(field[i + 2]) &&
        is_octal(field[i + 3])) {
      plain += static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 + (field[i + 3] - '0'));
      i += 3;
    } else {
      plain += field[i];
    }
  }
  return plain;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}

template <class Number>
bool parse_number(std::string_view text, Number& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

/// The user_id of a FUSE mount's super options ("rw,user_id=1000,group_id=1000"; fs/fuse/inode.c, fuse_show_options).
std::optional<std::uint32_t> user_of(std::string_view options) {
  constexpr std::string_view kName = "user_id=";
  for (const std::string_view option : split(options, ',')) {
    std::uint32_t user = 0;
    if (option.starts_with(kName) && parse_number(option.substr(kName.size()), user)) return user;
  }
  return std::nullopt;
}

/// "36 35 98:0 /root /point options optional-fields... - type source super-options"
std::optional<MountEntry> parse_line(std::string_view line) {
  const auto fields = split(line, ' ');
  std::size_t dash = 6;
  while (dash < fields.size() && fields[dash] != "-") ++dash;
  if (dash + 2 >= fields.size()) return std::nullopt;
  MountEntry entry;
  const auto numbers = split(fields[2], ':');
  if (numbers.size() != 2 || !parse_number(fields[0], entry.id) || !parse_number(fields[1], entry.parent) ||
      !parse_number(numbers[0], entry.major) || !parse_number(numbers[1], entry.minor))
    return std::nullopt;
  entry.root = unescaped(fields[3]);
  entry.point = unescaped(fields[4]);
  entry.type = unescaped(fields[dash + 1]);
  entry.source = unescaped(fields[dash + 2]);
  if (dash + 3 < fields.size()) entry.user = user_of(fields[dash + 3]);
  return entry;
}

bool is_within(std::string_view path, std::string_view directory) {
  if (directory == "/") return path.starts_with('/');
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

bool same_device(const MountEntry& entry, const Place& place) {
  return entry.major == place.major && entry.minor == place.minor;
}

std::string operation_of(const std::string& directory) {
  return "find the Sandbar mount of " + base::printable(directory);
}

/// STATX_TYPE and DONT_SYNC: what the kernel knows by itself, without a question to the driver.
Result<Place> place_of(const std::string& directory) {
  struct statx attributes {};
  if (::statx(AT_FDCWD, directory.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MNT_ID, &attributes) != 0)
    return os_error(errno, operation_of(directory));
  Place place;
  if ((attributes.stx_mask & STATX_MNT_ID) != 0) place.mount_id = attributes.stx_mnt_id;
  place.major = attributes.stx_dev_major;
  place.minor = attributes.stx_dev_minor;
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(directory.c_str(), nullptr), &std::free);
  if (!real) return os_error(errno, operation_of(directory));
  place.path = real.get();
  return place;
}

Result<std::string> xattr_of(const std::string& path, const char* name) {
  std::string value(kMaxXattr, '\0');
  const ssize_t size = ::getxattr(path.c_str(), name, value.data(), value.size());
  if (size < 0) return os_error(errno, std::string("read ") + name + " of " + base::printable(path));
  value.resize(static_cast<std::size_t>(size));
  return value;
}

/// nullopt where there is none.
Result<std::optional<std::string>> optional_xattr(const std::string& path, const char* name) {
  auto value = xattr_of(path, name);
  if (value) return std::optional<std::string>(std::move(value).value());
  if (value.error().os_errno == ENODATA) return std::optional<std::string>();
  return std::move(value).error();
}

/// A path under which the root of `mount`'s file system can be reached: only there are the attributes. For a bind mount
/// of a subdirectory this is another mount of the same device.
Result<std::string> root_path(const std::vector<MountEntry>& mounts, const MountEntry& mount, const Place& place) {
  for (const MountEntry& candidate : mounts) {
    if (candidate.root != "/" || candidate.type != kMountType || !same_device(candidate, place)) continue;
    // Another file system may be mounted over it.
    const auto there = place_of(candidate.point);
    if (there && same_device(candidate, *there)) return candidate.point;
  }
  return make_error(Errc::invalid, operation_of(place.path),
                    "it lies on a bind mount of a Sandbar mount whose root cannot be reached any more; "
                    "give the TARGET (mounted at " +
                        base::printable(mount.point) + ")");
}

Result<MountedDirectory> describe(const std::vector<MountEntry>& mounts, const MountEntry& mount, const Place& place) {
  const auto root = root_path(mounts, mount, place);
  if (!root) return root.error();
  const auto text = xattr_of(*root, kTargetXattr);
  if (!text) return text.error();
  auto target = Target::parse(*text);
  if (!target) return std::move(target).error();
  const auto insecure = optional_xattr(*root, kInsecureXattr);
  if (!insecure) return insecure.error();
  MountedDirectory found{std::move(target).value(), mount.point, {}, {}, {}, insecure->has_value()};
  found.target.directory = join_directory(found.target.directory, path_on_mount(mount, place.path));
  for (const auto& [name, into] :
       {std::pair{kTokenFileXattr, &found.token_file}, std::pair{kGrantCommandXattr, &found.grant_command},
        std::pair{kCaFileXattr, &found.ca_file}}) {
    auto value = optional_xattr(*root, name);
    if (!value) return std::move(value).error();
    *into = value->value_or("");
  }
  return found;
}

}  // namespace

std::vector<MountEntry> parse_mountinfo(std::string_view text) {
  std::vector<MountEntry> mounts;
  for (const std::string_view line : split(text, '\n'))
    if (auto entry = parse_line(line)) mounts.push_back(std::move(*entry));
  return mounts;
}

const MountEntry* find_mount(const std::vector<MountEntry>& mounts, const Place& place) {
  const MountEntry* innermost = nullptr;
  for (const MountEntry& mount : mounts) {
    if (mount.type != kMountType || !same_device(mount, place) || !is_within(place.path, mount.point)) continue;
    if (place.mount_id != 0) {
      if (mount.id == place.mount_id) return &mount;
      continue;
    }
    // Of mounts on the same point the last one listed is on top.
    if (innermost == nullptr || mount.point.size() >= innermost->point.size()) innermost = &mount;
  }
  return innermost;
}

bool is_trusted(const MountEntry& mount, std::uint32_t user) {
  return mount.user && (*mount.user == 0 || *mount.user == user);
}

std::string join_directory(std::string_view directory, std::string_view below) {
  if (below == "/") return std::string(directory);
  return directory == "/" ? std::string(below) : std::string(directory) + std::string(below);
}

std::string path_on_mount(const MountEntry& mount, std::string_view path) {
  std::string_view below = mount.point == "/" ? path : path.substr(mount.point.size());
  if (below.empty()) below = "/";
  return join_directory(mount.root, below);
}

Result<std::optional<MountedDirectory>> find_mounted_directory(const std::string& directory) {
  const auto place = place_of(directory);
  if (!place) return place.error();
  std::ifstream file("/proc/self/mountinfo", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto mounts = parse_mountinfo(text);
  const MountEntry* mount = find_mount(mounts, *place);
  if (mount == nullptr) return std::optional<MountedDirectory>();
  if (!is_trusted(*mount, ::geteuid()))
    return make_error(Errc::invalid, operation_of(place->path),
                      base::printable(mount->point) +
                          " was mounted by another user, who could name any command as its "
                          "target; give the TARGET yourself");
  auto found = describe(mounts, *mount, *place);
  if (!found) return std::move(found).error();
  return std::optional<MountedDirectory>(std::move(found).value());
}

}  // namespace sandbar::client
