// SPDX-License-Identifier: Apache-2.0
#include "mux/greeter.h"

#include <utility>

#include "base/thread_check.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace sandbar::mux {

using wire::FrameType;

Greeter::Greeter(base::Loop& loop, std::unique_ptr<net::Transport> transport, base::Duration timeout,
                 base::Function<void(Greeted)> greeted, base::Function<void()> over)
    : loop_(loop), transport_(std::move(transport)), greeted_(std::move(greeted)), over_(std::move(over)) {
  SANDBAR_ON_LOOP(loop_);
  timer_ = loop_.schedule(timeout, [this] { refuse(make_error(Errc::timeout, "wait for the client's hello")); });
  transport_->start(*this);
}

Greeter::~Greeter() { loop_.cancel(timer_); }

void Greeter::on_message(base::Bytes message) {
  if (!greeted_) return;
  const Result<wire::Frame> frame = wire::decode_frame(message);
  if (!frame) return refuse(frame.error());
  if (frame->type == FrameType::ping) {
    // One that asks and does not read gets no more.
    if (transport_->writable())
      transport_->send(wire::encode_frame({FrameType::pong, 0, 0, frame->channel, 0, {}, {}}));
    return;
  }
  if (frame->type == FrameType::goodbye) {
    greeted_ = nullptr;
    loop_.cancel(std::exchange(timer_, {}));
    return transport_->close("goodbye");
  }
  if (frame->type != FrameType::hello || frame->lane != 0)
    return refuse(make_error(Errc::protocol, "read from the peer", "the first frame is not a hello"));
  Result<wire::Hello> hello = wire::decode_hello(frame->head);
  if (!hello) return refuse(hello.error());
  loop_.cancel(std::exchange(timer_, {}));
  auto greeted = std::exchange(greeted_, nullptr);
  greeted({std::move(transport_), std::move(hello).value(), std::move(message)});
}

void Greeter::refuse(const Error& reason, std::unique_ptr<net::Transport> transport) {
  greeted_ = nullptr;
  loop_.cancel(std::exchange(timer_, {}));
  if (transport) {
    transport_ = std::move(transport);
    transport_->start(*this);
  }
  const wire::Goodbye goodbye{std::string(errc_name(reason.code)), reason.message()};
  transport_->send(wire::encode_frame({FrameType::goodbye, 0, 0, 0, 0, wire::encode_goodbye(goodbye), {}}));
  transport_->close(reason.message());
}

void Greeter::on_closed(Error) {
  loop_.cancel(std::exchange(timer_, {}));
  if (auto over = std::exchange(over_, nullptr)) over();
}

}  // namespace sandbar::mux
