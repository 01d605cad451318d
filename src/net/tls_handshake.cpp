// SPDX-License-Identifier: Apache-2.0
#include "net/tls_handshake.h"

#include "net/stream_watch.h"

namespace sandbar::net {
namespace {

class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  Handshake(base::Loop& loop, std::unique_ptr<TlsStream> stream, base::Function<void(std::unique_ptr<TlsStream>)> done)
      : loop_(loop), stream_(std::move(stream)), done_(std::move(done)) {}

  void start() {
    const auto step = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->step();
    };
    watch_ = std::make_unique<StreamWatch>(loop_, *stream_, step, step);
    loop_.post(step);
  }
  void abandon() {
    done_ = nullptr;
    watch_.reset();
    stream_.reset();
  }

 private:
  void step() {
    if (!stream_) return;
    if (stream_->handshake() == TlsStream::Progress::blocked) {
      watch_->want_write(stream_->wants_write());
      // Both at once would be awake for input that waits until our own part is out.
      watch_->want_read(!stream_->wants_write());
      return;
    }
    watch_.reset();
    auto done = std::exchange(done_, nullptr);
    if (done) done(std::move(stream_));
  }

  base::Loop& loop_;
  std::unique_ptr<TlsStream> stream_;
  std::unique_ptr<StreamWatch> watch_;
  base::Function<void(std::unique_ptr<TlsStream>)> done_;
};

class Handle final : public PendingTls {
 public:
  explicit Handle(std::shared_ptr<Handshake> handshake) : handshake_(std::move(handshake)) {}
  ~Handle() override { handshake_->abandon(); }

 private:
  std::shared_ptr<Handshake> handshake_;
};

}  // namespace

std::unique_ptr<PendingTls> tls_handshake(base::Loop& loop, std::unique_ptr<TlsStream> stream,
                                          base::Function<void(std::unique_ptr<TlsStream>)> done) {
  auto handshake = std::make_shared<Handshake>(loop, std::move(stream), std::move(done));
  handshake->start();
  return std::make_unique<Handle>(std::move(handshake));
}

}  // namespace sandbar::net
