// SPDX-License-Identifier: Apache-2.0
#include "stderr_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace sandbar::tools {

StderrRelay::StderrRelay(base::Loop& loop) : loop_(loop) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  pipe_ = base::UniqueFd(ends[0]);
  const base::UniqueFd write_end(ends[1]);
  // Only our end: the command's writes are to wait for room, not to fail.
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  real_ = base::UniqueFd(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ::dup2(write_end.get(), STDERR_FILENO);
  watch_ = loop_.watch(pipe_.get(), base::Readiness::readable, [this] { pump(); });
}

StderrRelay::~StderrRelay() {
  pump();
  if (watch_) loop_.unwatch(watch_);
}

void StderrRelay::pump() {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t got = pipe_ ? ::read(pipe_.get(), bytes.data(), bytes.size()) : 0;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;  // nothing more for now
    if (got == 0) break;
    if (real_) {
      [[maybe_unused]] const ssize_t written = ::write(real_.get(), bytes.data(), static_cast<std::size_t>(got));
    }
  }
  // Nobody holds the other end any more.
  if (watch_) loop_.unwatch(watch_);
  watch_ = {};
}

}  // namespace sandbar::tools
