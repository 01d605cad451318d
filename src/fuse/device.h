// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace sandbar::fuse {

/// The kernel's side as frames (linux/fuse.h): /dev/fuse, or fakes::FakeKernel. As read(2) and writev(2): -1 with
/// errno.
class Device {
 public:
  virtual ~Device() = default;
  /// One request; EAGAIN where none waits, ENODEV when the file system was unmounted.
  virtual ssize_t read(void* into, std::size_t size) = 0;
  /// One reply; ENOENT where the kernel has given the request up.
  virtual ssize_t write(struct iovec* parts, int count) = 0;
};

}  // namespace sandbar::fuse
