// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"

namespace sandbar::base {
namespace {

Result<UniqueFd> open_file(const std::string& path, int flags, struct stat& attributes, const std::string& operation) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | flags));
  if (!fd || ::fstat(fd.get(), &attributes) != 0) return os_error(errno, operation);
  return fd;
}

}  // namespace

Result<std::string> read_up_to(int fd, std::size_t most, const std::string& operation) {
  std::string text(most + 1, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(fd, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error(errno, operation);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

Result<UniqueFd> open_to_read(const std::string& path, bool is_secret, const std::string& operation) {
  struct stat attributes {};
  auto fd = open_file(path, 0, attributes, operation);
  if (!fd) return fd;
  if (S_ISDIR(attributes.st_mode)) return os_error(EISDIR, operation);
  if (is_secret && (attributes.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return make_error(Errc::invalid, operation,
                      "others than its owner have rights on it; run: chmod 600 " + printable(path));
  return fd;
}

Result<UniqueFd> open_regular(const std::string& path, const char* refusal, const std::string& operation) {
  struct stat attributes {};
  auto fd = open_file(path, O_NONBLOCK, attributes, operation);
  if (!fd) return fd;
  if (!S_ISREG(attributes.st_mode)) return make_error(Errc::invalid, operation, refusal);
  return fd;
}

}  // namespace sandbar::base
