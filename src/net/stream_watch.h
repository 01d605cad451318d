// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/loop.h"
#include "net/stream.h"

namespace sandbar::net {

/// The two watches of one stream, on and off. Destroyed before its stream. Loop's thread.
class StreamWatch {
 public:
  /// The callbacks must bear that the StreamWatch is destroyed inside them.
  StreamWatch(base::Loop& loop, Stream& stream, base::Function<void()> readable, base::Function<void()> writable);
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  void want_read(bool wanted);
  void want_write(bool wanted);

 private:
  void set(base::WatchId& watch, bool wanted, int fd, base::Readiness readiness,
           const std::shared_ptr<base::Function<void()>>& ready);

  base::Loop& loop_;
  Stream& stream_;
  std::shared_ptr<base::Function<void()>> readable_;
  std::shared_ptr<base::Function<void()>> writable_;
  base::WatchId read_;
  base::WatchId write_;
};

}  // namespace sandbar::net
