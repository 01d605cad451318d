// SPDX-License-Identifier: Apache-2.0
#include "mux/session.h"

#include <utility>

#include "mux/session_core.h"

namespace sandbar::mux {

Responder::Responder(std::weak_ptr<SessionCore> core, wire::RequestId id) : core_(std::move(core)), id_(id) {}
Responder::Responder(Responder&& other) noexcept
    : core_(std::move(other.core_)), id_(std::exchange(other.id_, wire::RequestId{})) {}

Responder& Responder::operator=(Responder&& other) noexcept {
  if (this != &other) {
    if (id_) fail(make_error(Errc::internal, "answer the request", "it was dropped"));
    core_ = std::move(other.core_);
    id_ = std::exchange(other.id_, wire::RequestId{});
  }
  return *this;
}

Responder::~Responder() {
  if (id_) fail(make_error(Errc::internal, "answer the request", "it was dropped"));
}

void Responder::reply(Message message) {
  const wire::RequestId id = std::exchange(id_, wire::RequestId{});
  if (const auto core = core_.lock(); core && id) core->answer(id, std::move(message));
}

void Responder::fail(const Error& error) {
  const wire::RequestId id = std::exchange(id_, wire::RequestId{});
  if (const auto core = core_.lock(); core && id) core->answer_error(id, error);
}

void Responder::on_cancel(base::Task cancelled) {
  if (const auto core = core_.lock(); core && id_) core->on_cancel(id_, std::move(cancelled));
}

bool Responder::cancelled() const {
  const auto core = core_.lock();
  return !core || core->is_cancelled(id_);
}

Session::Session(base::Loop& loop, std::unique_ptr<net::Transport> transport, SessionOptions options, Handler& handler)
    : core_(std::make_shared<SessionCore>(loop, std::move(transport), std::move(options), handler)) {
  core_->start();
}

Session::~Session() { core_->detach(); }

wire::RequestId Session::request(Message message, RequestOptions options, base::OneShot<Message> done) {
  return core_->request(std::move(message), options, std::move(done));
}
void Session::cancel(wire::RequestId request) { core_->cancel(request, Errc::cancelled); }
std::shared_ptr<Channel> Session::open_channel() { return core_->open_channel(); }
std::shared_ptr<Channel> Session::take_channel(wire::ChannelId id) { return core_->take_channel(id); }
void Session::resume(std::unique_ptr<net::Transport> transport) { core_->resume(std::move(transport)); }
Result<void> Session::take_over(std::unique_ptr<net::Transport>& transport, const wire::Hello& peer_hello) {
  return core_->take_over(transport, peer_hello);
}
bool Session::attached() const { return core_->attached(); }
std::size_t Session::retained() const { return core_->retained(); }
void Session::close(const Error& reason) { core_->close(reason); }
bool Session::ready() const { return core_->ready(); }
const wire::Hello& Session::peer_hello() const { return core_->peer_hello(); }
SessionStats Session::stats() const { return core_->stats(); }
std::size_t Session::backlog() const { return core_->backlog(); }
std::string Session::peer() const { return core_->peer(); }

}  // namespace sandbar::mux
