// SPDX-License-Identifier: Apache-2.0
#include "fuse/dying.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/unique_fd.h"

namespace sandbar::fuse {
namespace {

/// A signal mask line of proc(5), such as "SigPnd:\t0000000000000100"; 0 where there is none.
std::uint64_t mask_of(std::string_view status, std::string_view field) {
  const std::string head = "\n" + std::string(field) + ":\t";
  const std::size_t at = status.find(head);
  if (at == std::string_view::npos) return 0;
  std::uint64_t mask = 0;
  const char* const begin = status.data() + at + head.size();
  std::from_chars(begin, status.data() + status.size(), mask, 16);
  return mask;
}

constexpr std::uint64_t bit(int signal) { return std::uint64_t{1} << (signal - 1); }

std::uint64_t harmless() {
  std::uint64_t mask = 0;
  for (const int signal : {SIGCHLD, SIGURG, SIGWINCH, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU}) mask |= bit(signal);
  return mask;
}

}  // namespace

bool status_shows_dying(std::string_view status) {
  const std::uint64_t pending = mask_of(status, "SigPnd") | mask_of(status, "ShdPnd");
  if ((pending & bit(SIGKILL)) != 0) return true;
  const std::uint64_t survived =
      mask_of(status, "SigBlk") | mask_of(status, "SigIgn") | mask_of(status, "SigCgt") | harmless();
  return (pending & ~survived) != 0;
}

bool is_dying(pid_t thread) {
  if (thread <= 0) return false;
  const std::string path = "/proc/" + std::to_string(thread) + "/status";
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno == ENOENT;
  std::array<char, 8192> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return errno == ESRCH;
  return status_shows_dying(std::string_view(text.data(), static_cast<std::size_t>(size)));
}

}  // namespace sandbar::fuse
