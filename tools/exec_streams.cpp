// SPDX-License-Identifier: Apache-2.0
#include "exec_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "base/assert.h"

namespace sandbar::tools {
namespace {

/// One read: what a pipe holds by default, and up to four times that where more comes at once.
constexpr std::size_t kLeastRead = 64 * 1024;
constexpr std::size_t kMostRead = 256 * 1024;

}  // namespace

void claim_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number, so this one. Read-only also for 1 and 2: a write must fail, as it would have.
    SANDBAR_ASSERT(::open("/dev/null", O_RDONLY) == fd);
  }
}

// --- StdinReader -----------------------------------------------------------------------------------------------

StdinReader::StdinReader(int fd, Process& process)
    : fd_(fd), process_(process), wake_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {
  SANDBAR_ASSERT(wake_);
}

StdinReader::~StdinReader() { stop(); }

std::optional<Error> StdinReader::stop() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    SANDBAR_ASSERT(::write(wake_.get(), &one, sizeof one) == sizeof one);
    thread_.join();
  }
  return failure_;
}

/// False when it is to stop. Files and /dev/null are always readable; a descriptor that cannot be polled is left to
/// read(2), which says why.
bool StdinReader::wait_readable() {
  for (;;) {
    std::array<pollfd, 2> fds{pollfd{fd_, POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return true;
    if (fds[1].revents != 0) return false;
    if (fds[0].revents != 0) return true;
  }
}

void StdinReader::run() {
  std::size_t size = kLeastRead;
  while (wait_readable()) {
    std::string bytes(size, '\0');
    const ssize_t got = ::read(fd_, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    // EIO: a terminal that is gone, or not ours to read (termios(3)): its end.
    if (got == 0 || (got < 0 && errno == EIO)) {
      static_cast<void>(process_.close_input());
      return;
    }
    if (got < 0) {
      failure_ = os_error(errno, "read standard input");
      static_cast<void>(process_.signal(SIGHUP));
      static_cast<void>(process_.close_input());
      return;
    }
    const auto count = static_cast<std::size_t>(got);
    size = std::clamp(count == size ? 2 * size : count, kLeastRead, kMostRead);
    bytes.resize(count);
    if (!process_.write(std::move(bytes))) return;  // it does not read any more; wait() knows the rest
  }
}

// --- OutputWriter ----------------------------------------------------------------------------------------------

OutputWriter::OutputWriter(int fd, std::function<void()> closed) : fd_(fd), closed_(std::move(closed)) {}

OutputWriter::~OutputWriter() { finish(); }

void OutputWriter::push(OutputChunk chunk) {
  if (chunk.is_end()) return;
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(chunk));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

std::optional<Error> OutputWriter::finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  return failure_;
}

void OutputWriter::run() {
  bool is_open = true;
  for (;;) {
    std::deque<OutputChunk> chunks;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty() || finishing_; });
      chunks.swap(queue_);
    }
    if (chunks.empty()) return;
    while (!chunks.empty()) {
      if (is_open && !write_all(chunks.front().bytes())) {
        is_open = false;
        closed_();
      }
      chunks.pop_front();  // gives its credit back
    }
  }
}

bool OutputWriter::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd_, bytes.data(), bytes.size());
    if (wrote >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      // Somebody who shares it made it non-blocking.
      pollfd writable{fd_, POLLOUT, 0};
      ::poll(&writable, 1, -1);
      continue;
    }
    if (errno != EPIPE)
      failure_ = os_error(errno, fd_ == STDERR_FILENO ? "write standard error" : "write standard output");
    return false;
  }
  return true;
}

}  // namespace sandbar::tools
