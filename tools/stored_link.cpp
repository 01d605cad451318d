// SPDX-License-Identifier: Apache-2.0
#include "stored_link.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/output.h"
#include "fuse/ioctl.h"
#include "sandbar/result.h"

namespace sandbar::tools {
namespace {

constexpr std::string_view kOption = "--readlink";

std::optional<std::string> only_path(const std::vector<const char*>& words) {
  if (words.size() == 3 && words[1] == kOption) return words[2];
  if (words.size() == 2 && words[1] != kOption) return words[1] + kOption.size() + 1;
  return std::nullopt;
}

Result<std::string> stored_link(const std::string& path) {
  const std::string what = "read the link " + base::printable(path);
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  fuse::StoredLink link{};
  if (name.size() >= sizeof link.name) return os_error(ENAMETOOLONG, what);
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return os_error(errno, what);
  if (!S_ISLNK(found.st_mode)) return os_error(EINVAL, what, "it is not a symbolic link");
  const base::UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error(errno, what);
  name.copy(link.name, name.size());
  if (::ioctl(fd.get(), fuse::kStoredLink, &link) == 0) return std::string(link.target);
  if (errno == ENOTTY)
    return make_error(Errc::invalid, what, "it is not in a directory that sandbox-mount has mounted");
  return os_error(errno, what);
}

}  // namespace

bool asks_for_link(const std::vector<const char*>& words) {
  return !words.empty() && std::any_of(words.begin() + 1, words.end(), [](std::string_view word) {
    return word == kOption || (word.starts_with(kOption) && word.substr(kOption.size()).starts_with('='));
  });
}

int print_stored_link(const std::vector<const char*>& words, const char* program, cli::Io io) {
  const auto path = only_path(words);
  if (!path) {
    io.err << program << ": --readlink stands alone\n  " << program << " --readlink PATH\n";
    return 2;
  }
  const auto target = stored_link(*path);
  if (!target) {
    cli::print_error(io.err, program, target.error());
    return 1;
  }
  // A terminal must not obey what a sandbox has written.
  io.out << (::isatty(STDOUT_FILENO) != 0 ? base::printable(*target) : *target) << '\n' << std::flush;
  return io.out ? 0 : 1;
}

}  // namespace sandbar::tools
