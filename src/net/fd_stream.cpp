// SPDX-License-Identifier: Apache-2.0
#include "net/fd_stream.h"

#include <sys/socket.h>

#include <cerrno>

namespace sandbar::net {

FdStream::FdStream(base::Loop& loop, base::UniqueFd socket, std::string peer)
    : loop_(loop), socket_(true), in_(std::move(socket)), peer_(std::move(peer)) {}

FdStream::FdStream(base::Loop& loop, base::UniqueFd in, base::UniqueFd out, std::string peer)
    : loop_(loop), socket_(false), in_(std::move(in)), out_(std::move(out)), peer_(std::move(peer)) {}

ssize_t FdStream::read(char* into, std::size_t size) {
  for (;;) {
    const ssize_t got = ::read(in_.get(), into, size);
    if (got >= 0 || errno != EINTR) return got;
  }
}

ssize_t FdStream::write(const iovec* pieces, int count) {
  if (write_shut_) {
    errno = EPIPE;
    return -1;
  }
  for (;;) {
    ssize_t put = 0;
    if (socket_) {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(pieces);  // sendmsg(2) only reads it
      message.msg_iovlen = static_cast<std::size_t>(count);
      put = ::sendmsg(in_.get(), &message, MSG_NOSIGNAL);
    } else {
      put = ::writev(out_.get(), pieces, count);
    }
    if (put >= 0 || errno != EINTR) return put;
  }
}

void FdStream::shutdown_write() {
  if (std::exchange(write_shut_, true)) return;
  if (socket_)
    ::shutdown(in_.get(), SHUT_WR);
  else
    out_.reset();
}

void FdStream::explain_end(base::Function<void(std::string)> explained) {
  loop_.post([alive = std::weak_ptr(alive_), explained = std::move(explained)]() mutable {
    if (!alive.expired()) explained({});
  });
}

void FdStream::close_both() {
  in_.reset();
  out_.reset();
}

}  // namespace sandbar::net
