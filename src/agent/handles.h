// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>

#include "agent/objects.h"
#include "agent/root.h"

namespace sandbar::agent {

/// An open file or directory. Shared by the session's table and the requests that run on it; used by several at once.
struct OpenFile {
  FdRef fd;
  ObjectPtr object;
  std::uint32_t flags = 0;  ///< O_ACCMODE bits
  /// The descriptor has O_APPEND still, without which a file that only takes appends (chattr +a) does not open.
  std::atomic<bool> appends{false};
  Root::OpenFileToken token;

  /// Guards the descriptor's position: what an append ended at, or where a listing is.
  std::mutex position_mutex;
  /// The cookie that the next getdents64(2) continues from; kUnknownPosition: seek first.
  std::uint64_t list_position = 0;

  static constexpr std::uint64_t kUnknownPosition = ~std::uint64_t{0};

  void set_mode(std::uint32_t open_flags) {
    flags = open_flags & O_ACCMODE;
    appends = (open_flags & O_APPEND) != 0;
  }
  [[nodiscard]] bool readable() const { return (flags & O_ACCMODE) != O_WRONLY; }
  [[nodiscard]] bool writable() const { return (flags & O_ACCMODE) != O_RDONLY; }
  /// Before what is to happen at an offset: O_APPEND would send it to the end. The errno of fcntl(2), or 0.
  [[nodiscard]] int stop_appending() {
    if (!appends) return 0;
    const int status = ::fcntl(fd->get(), F_GETFL);
    if (status < 0 || ::fcntl(fd->get(), F_SETFL, status & ~O_APPEND) != 0) return errno;
    appends = false;
    return 0;
  }
};
using OpenFilePtr = std::shared_ptr<OpenFile>;

}  // namespace sandbar::agent
