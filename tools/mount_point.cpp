// SPDX-License-Identifier: Apache-2.0
#include "mount_point.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/output.h"
#include "client/mount_lookup.h"

namespace sandbar::tools {
namespace {

/// KiB. One request brings up to 1 MiB, so this keeps a few of them under way.
constexpr const char* kReadAhead = "4096";
/// Dead mounts that lie on one another on the same directory.
constexpr int kMostDeadMounts = 16;

Error refuse(const std::string& directory, const std::string& why) {
  return make_error(Errc::invalid, "mount on " + base::printable(directory), why);
}

std::vector<client::MountEntry> mounts() {
  std::ifstream file("/proc/self/mountinfo", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return client::parse_mountinfo(text);
}

/// What is mounted on `path` itself, the topmost; nothing where it is no mount point. Does not ask the driver.
std::optional<client::MountEntry> mounted_on(const std::string& path) {
  std::optional<client::MountEntry> found;
  for (client::MountEntry& entry : mounts())
    if (entry.point == path) found = std::move(entry);
  return found;
}

/// A FUSE mount whose driver is gone answers ENOTCONN to everything.
bool is_dead(const std::string& path) {
  struct stat attributes {};
  return ::stat(path.c_str(), &attributes) != 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

int run_fusermount(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("fusermount3", "fusermount3", "-q", "-u", "-z", "--", path.c_str(), nullptr);
    ::_exit(127);
  }
  int status = -1;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

bool unmount_lazily(const std::string& path) {
  return ::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0 || run_fusermount(path) == 0;
}

std::string unmount_line(const std::string& path) {
  return ::geteuid() == 0 ? cli::shell_line({"umount", path}) : cli::shell_line({"fusermount3", "-u", path});
}

/// Clears dead mounts of ours away; an Error for any other mount.
Result<void> clear(const std::string& directory, const std::string& path) {
  for (int i = 0; i < kMostDeadMounts; ++i) {
    const auto mounted = mounted_on(path);
    if (!mounted) return {};
    const std::string what = base::printable(mounted->source) + " (" + base::printable(mounted->type) + ")";
    const std::string remove = cli::shell_line({"fusermount3", "-u", "-z", path});
    if (mounted->type != client::kMountType || !is_dead(path))
      return refuse(directory, "it is a mount point already: " + what + " is mounted there; unmount it first (" +
                                   unmount_line(path) + "), or take another directory");
    if (!unmount_lazily(path))
      return refuse(directory, "a dead mount of " + what + " is in the way and cannot be removed; run: " + remove);
  }
  return refuse(directory, "too many dead mounts lie there");
}

Result<void> check_empty(const std::string& directory, const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(path.c_str()), &::closedir);
  if (!open) return os_error(errno, "open the mount point " + base::printable(directory));
  for (const dirent* entry = ::readdir(open.get()); entry != nullptr; entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..")
      return refuse(directory, "it is not empty: take an empty directory, or add -o nonempty to hide what is in it");
  }
  return {};
}

Result<std::string> resolve(const std::string& directory) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(directory.c_str(), nullptr), &std::free);
  if (real) return std::string(real.get());
  if (errno == ENOENT)
    return refuse(directory,
                  "there is no such directory; make it first: " + cli::shell_line({"mkdir", "-p", directory}));
  if (errno == ENOTCONN) return refuse(directory, "it lies on a mount whose driver is dead; unmount that one first");
  return os_error(errno, "mount on " + base::printable(directory));
}

bool file_has_line(const char* path, std::string_view wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t end = line.find_last_not_of(" \t\r");
    if (std::string_view(line).substr(0, end + 1) == wanted) return true;
  }
  return false;
}

bool have_program(const std::string& name) {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): before threads start
  std::string directories = std::string(path != nullptr ? path : "") + ":/usr/bin:/bin";
  for (std::size_t at = 0; at < directories.size();) {
    const std::size_t end = std::min(directories.find(':', at), directories.size());
    if (::access((directories.substr(at, end - at) + "/" + name).c_str(), X_OK) == 0) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

Result<std::string> prepare_mount_point(const std::string& directory, bool nonempty) {
  auto path = resolve(directory);
  if (!path) return path;
  if (auto cleared = clear(directory, *path); !cleared) return std::move(cleared).error();
  struct stat attributes {};
  if (::stat(path->c_str(), &attributes) != 0) return os_error(errno, "mount on " + base::printable(directory));
  if (!S_ISDIR(attributes.st_mode)) return refuse(directory, "it is not a directory");
  if (::geteuid() != 0 && ::access(path->c_str(), W_OK) != 0)
    return refuse(directory, "you have no right to write there, which an ordinary user needs for mounting");
  if (!nonempty)
    if (auto empty = check_empty(directory, *path); !empty) return std::move(empty).error();
  return path;
}

Result<void> check_fuse(bool allow_other) {
  const std::string what = "use FUSE";
  const base::UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device && (errno == ENOENT || errno == ENODEV || errno == ENXIO))
    return os_error(errno, what,
                    "/dev/fuse is not there; run `modprobe fuse` as root, or in a container start it with "
                    "--device /dev/fuse --cap-add SYS_ADMIN");
  if (!device && (errno == EACCES || errno == EPERM))
    return os_error(errno, what, "you may not open /dev/fuse; run `chmod 666 /dev/fuse` as root, as Debian has it");
  if (!device) return os_error(errno, what + ": open /dev/fuse");
  if (::geteuid() == 0) return {};
  if (!have_program("fusermount3"))
    return make_error(Errc::invalid, what,
                      "fusermount3 is missing, which an ordinary user needs; run as root: "
                      "apt-get install fuse3");
  if (allow_other && !file_has_line("/etc/fuse.conf", "user_allow_other"))
    return make_error(Errc::invalid, "-o allow_other",
                      "ordinary users may use it only where root allows it: add the line user_allow_other to "
                      "/etc/fuse.conf");
  return {};
}

MountedDevice mounted_device(const std::string& point) {
  const auto mounted = mounted_on(point);
  if (!mounted || mounted->type != client::kMountType) return {};
  return {point, mounted->major, mounted->minor};
}

void raise_read_ahead(const MountedDevice& device) {
  if (device.point.empty()) return;
  std::ofstream setting("/sys/class/bdi/" + std::to_string(device.major) + ":" + std::to_string(device.minor) +
                        "/read_ahead_kb");
  setting << kReadAhead << std::flush;
}

void remove_if_left(const MountedDevice& device) {
  if (device.point.empty()) return;
  const auto mounted = mounted_on(device.point);
  if (mounted && mounted->major == device.major && mounted->minor == device.minor) unmount_lazily(device.point);
}

}  // namespace sandbar::tools
