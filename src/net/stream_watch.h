// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/loop.h"
#include "net/stream.h"

namespace sandbar::net {

/// The two watches of one stream, on and off; also tells of input that the stream itself holds (Stream::has_input).
/// Destroyed before its stream. Loop's thread.
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
  void read_ready();
  void read_again();

  base::Loop& loop_;
  Stream& stream_;
  std::shared_ptr<base::Function<void()>> readable_;
  std::shared_ptr<base::Function<void()>> writable_;
  base::WatchId read_;
  base::WatchId write_;
  bool again_ = false;  ///< read_ready() is posted
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandbar::net
