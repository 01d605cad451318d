// SPDX-License-Identifier: Apache-2.0
#include "net/stream_watch.h"

namespace sandbar::net {

StreamWatch::StreamWatch(base::Loop& loop, Stream& stream, base::Function<void()> readable,
                         base::Function<void()> writable)
    : loop_(loop),
      stream_(stream),
      readable_(std::make_shared<base::Function<void()>>(std::move(readable))),
      writable_(std::make_shared<base::Function<void()>>(std::move(writable))) {}

StreamWatch::~StreamWatch() {
  want_read(false);
  want_write(false);
}

void StreamWatch::want_read(bool wanted) {
  if (wanted == static_cast<bool>(read_)) return;
  if (!wanted) return loop_.unwatch(std::exchange(read_, {}));
  read_ = loop_.watch(stream_.read_fd(), base::Readiness::readable, [this] { read_ready(); });
  read_again();
}

void StreamWatch::want_write(bool wanted) {
  if (wanted == static_cast<bool>(write_)) return;
  if (wanted)
    write_ = loop_.watch(stream_.write_fd(), base::Readiness::writable, [ready = writable_] { (*ready)(); });
  else
    loop_.unwatch(std::exchange(write_, {}));
}

void StreamWatch::read_ready() {
  const std::weak_ptr<bool> alive = alive_;
  const auto ready = readable_;
  (*ready)();
  if (!alive.expired()) read_again();
}

/// The descriptor will not tell of what the stream has read already.
void StreamWatch::read_again() {
  if (!read_ || !stream_.has_input() || std::exchange(again_, true)) return;
  loop_.post([this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    again_ = false;
    if (read_) read_ready();
  });
}

}  // namespace sandbar::net
