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
  set(read_, wanted, stream_.read_fd(), base::Readiness::readable, readable_);
}

void StreamWatch::want_write(bool wanted) {
  set(write_, wanted, stream_.write_fd(), base::Readiness::writable, writable_);
}

void StreamWatch::set(base::WatchId& watch, bool wanted, int fd, base::Readiness readiness,
                      const std::shared_ptr<base::Function<void()>>& ready) {
  if (wanted == static_cast<bool>(watch)) return;
  if (wanted)
    watch = loop_.watch(fd, readiness, [ready] { (*ready)(); });
  else
    loop_.unwatch(std::exchange(watch, {}));
}

}  // namespace sandbar::net
