// SPDX-License-Identifier: Apache-2.0
#include "fuse/mount.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace sandbar::fuse {
namespace {

/// mount(2) copies the source through one page, and mountinfo shows it whole: a long exec: command is cut. The whole
/// TARGET is in the root's extended attribute.
constexpr std::size_t kMaxSource = 1024;

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, kMaxSource)) {
    if (c == ',' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

bool strip(std::string_view& line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return false;
  line.remove_prefix(prefix.size());
  return true;
}

}  // namespace

const std::vector<std::string>& flag_names() {
  static const std::vector<std::string> kNames{"ro",      "rw",   "exec",  "noexec", "atime",
                                               "noatime", "sync", "async", "dirsync"};
  return kNames;
}

std::vector<std::string> mount_arguments(const MountOptions& options) {
  std::vector<std::string> arguments{"sandbox-mount"};
  const auto add = [&](std::string option) { arguments.push_back("-o" + std::move(option)); };
  add("default_permissions");
  add("nosuid");
  add("nodev");
  add("fsname=" + escaped(options.source));
  add(std::string("subtype=") + kSubtype);
  if (options.allow_other) add("allow_other");
  if (options.max_read != 0) add("max_read=" + std::to_string(options.max_read));
  for (const std::string& flag : options.flags) add(flag);
  return arguments;
}

Result<void> forbid_symlinks(const std::string& mount_point) {
  mount_attr change{};
  change.attr_set = MOUNT_ATTR_NOSYMFOLLOW;
  // Resolves the mount's root without asking the driver, which is us.
  if (::mount_setattr(AT_FDCWD, mount_point.c_str(), 0, &change, sizeof change) == 0) return {};
  if (errno == EPERM)
    return os_error(EPERM, "set nosymfollow", "only root can; without it links are shown so that they stay inside");
  return os_error(errno, "set nosymfollow");
}

StderrCapture::StderrCapture()
    : saved_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)), memory_(::memfd_create("stderr", MFD_CLOEXEC)) {
  if (saved_ >= 0 && memory_ >= 0) ::dup2(memory_, STDERR_FILENO);
}

StderrCapture::~StderrCapture() {
  if (saved_ >= 0) {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }
  if (memory_ >= 0) ::close(memory_);
}

std::string StderrCapture::text() const {
  std::array<char, 4096> bytes{};
  const ssize_t size = memory_ >= 0 ? ::pread(memory_, bytes.data(), bytes.size(), 0) : 0;
  return one_line(std::string_view(bytes.data(), static_cast<std::size_t>(size > 0 ? size : 0)));
}

std::string one_line(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    strip(line, "fusermount3: ") || strip(line, "fuse: ");
    if (line.empty()) continue;
    if (!result.empty()) result += "; ";
    result += line;
  }
  return result;
}

}  // namespace sandbar::fuse
