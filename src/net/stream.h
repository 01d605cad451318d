// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <string>

#include "base/function.h"
#include "base/unique_fd.h"

namespace sandbar::net {

/// A byte stream both ways that never blocks; internal to net. What it runs on (a socket, two pipes, TLS over another)
/// is known only here. Loop's thread.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Closes at once.
  virtual ~Stream() = default;

  /// As read(2): bytes, 0 at the end, or -1 with errno (EAGAIN: nothing now). Never EINTR.
  virtual ssize_t read(char* into, std::size_t size) = 0;
  /// As writev(2), at most IOV_MAX pieces; may take less. -1 with errno. What was not taken is offered again, unchanged
  /// and first, in the next call (TLS has encrypted it by then). Raises no SIGPIPE on a socket; on a pipe it would, so
  /// programs that use pipe streams ignore SIGPIPE.
  virtual ssize_t write(const iovec* pieces, int count) = 0;
  /// The peer reads an end after what was written; reading goes on.
  virtual void shutdown_write() = 0;
  /// What becomes readable or writable (level-triggered); may be the same descriptor.
  [[nodiscard]] virtual int read_fd() const = 0;
  [[nodiscard]] virtual int write_fd() const = 0;
  /// read() may give something although read_fd() is not readable: it is here already. StreamWatch minds it.
  [[nodiscard]] virtual bool has_input() const { return false; }
  /// Who is at the other end, for messages.
  [[nodiscard]] virtual std::string peer() const = 0;
  /// After an end or an error: says why, if it is known ("the command ended with code 127"), else "". Within a second,
  /// never inside this call, not after the stream is gone.
  virtual void explain_end(base::Function<void(std::string)> explained) = 0;
};

}  // namespace sandbar::net
