// SPDX-License-Identifier: Apache-2.0
#include "client/remote_files.h"

#include <memory>
#include <string>

#include "base/thread_check.h"
#include "wire/codec.h"
#include "wire/limits.h"

namespace sandbar::client {
namespace {

/// Why the request cannot go out: its agent would close the whole connection over it.
std::string too_large(const base::Bytes& head, const base::Bytes& body) {
  if (head.size() > wire::kMaxHead) return "its fields take " + std::to_string(head.size()) + " bytes";
  if (body.size() > wire::kMaxBody) return "its data takes " + std::to_string(body.size()) + " bytes";
  return {};
}

}  // namespace

Result<RemoteFs::AnyAnswer> decode_answer(mux::Message message) {
  auto reply = wire::decode_reply(message.head);
  if (!reply) return std::move(reply).error();
  return RemoteFs::AnyAnswer{std::move(reply->body), std::move(message.body), reply->change};
}

RemoteFiles::RemoteFiles(base::Loop& loop, mux::Session& session, bool numbers_mutations)
    : loop_(loop),
      session_(&session),
      numbers_mutations_(numbers_mutations),
      last_mutation_(numbers_mutations ? session.peer_hello().last_mutation : wire::MutationNumber()) {}

CallId RemoteFiles::submit(wire::RequestContext context, wire::RequestBody request, base::Bytes body,
                           CallOptions options, base::OneShot<AnyAnswer> done) {
  SANDBAR_ON_LOOP(loop_);
  const bool numbered = numbers_mutations_ && is_mutation(request);
  context.mutation = numbered ? wire::MutationNumber(last_mutation_.value + 1) : wire::MutationNumber();
  wire::Request envelope{std::move(context), std::move(request)};
  mux::Message message{wire::encode_request(envelope), std::move(body)};
  if (const std::string why = too_large(message.head, message.body); !why.empty()) {
    loop_.post([done = std::move(done), error = make_error(Errc::limit, wire::request_name(envelope.body),
                                                           why)]() mutable { done(std::move(error)); });
    return CallId();
  }
  // Only now: a number that never goes out would leave a gap, and the agent executes without one.
  if (numbered) last_mutation_ = envelope.context.mutation;
  const auto id = session_->request(std::move(message), mux::RequestOptions{options.timeout},
                                    [done = std::move(done)](Result<mux::Message> reply) mutable {
                                      if (!reply) return done(std::move(reply).error());
                                      done(decode_answer(std::move(reply).value()));
                                    });
  return CallId(id.value);
}

void RemoteFiles::cancel(CallId call) { session_->cancel(wire::RequestId(call.value)); }

const wire::Hello& RemoteFiles::agent() const { return session_->peer_hello(); }

}  // namespace sandbar::client
