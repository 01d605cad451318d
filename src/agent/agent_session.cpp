// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_session.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/thread_check.h"
#include "wire/codec.h"

namespace sandbar::agent {
namespace {

void send(mux::Responder& responder, wire::ChangeNumber change, wire::ReplyBody body) {
  responder.reply({wire::encode_reply({change, std::move(body)}), {}});
}

}  // namespace

AgentSession::AgentSession(AgentServices& services, SessionKey key, mux::Greeter::Greeted client, Options options,
                           Owner& owner)
    : services_(services), key_(key), options_(std::move(options)), owner_(owner) {
  SANDBAR_ON_LOOP(services_.loop);
  mux::SessionOptions mux;
  mux.role = mux::Role::agent;
  mux.hello = hello();
  mux.first_message = std::move(client.message);
  mux.on_hello = [this](const wire::Hello& theirs, wire::Hello& ours) { return on_hello(theirs, ours); };
  session_ = std::make_unique<mux::Session>(services_.loop, std::move(client.transport), std::move(mux), *this);
}

AgentSession::~AgentSession() {
  services_.loop.cancel(lock_timer_);
  session_.reset();
  services_.processes.session_over(key_);
}

wire::Hello AgentSession::hello() const {
  wire::Hello hello;
  hello.software = "sandbar " SANDBAR_VERSION;
  hello.capabilities = {wire::kCapabilityFilesPosix, wire::kCapabilityProcess, wire::kCapabilityAuthorize};
  hello.agent = services_.agent;
  hello.epoch = services_.epoch;
  hello.root = services_.root.path();
  hello.uid = services_.root.identities().uid();
  hello.gid = services_.root.identities().gid();
  if (options_.name.empty()) return hello;
  hello.capabilities.emplace_back(wire::kCapabilityResume);
  hello.session = options_.name;
  hello.lease = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(options_.lease).count());
  return hello;
}

Result<void> AgentSession::on_hello(const wire::Hello& theirs, wire::Hello& ours) {
  if (options_.refusal) return *options_.refusal;
  ours.locks_lost = locks_lost_;
  // A session keeps the journal that it began with.
  if (!files_) journal_ = theirs.journal;
  if (journal_.empty()) return {};
  auto claimed = services_.journals.claim(journal_, subject(), theirs.last_answered);
  if (!claimed) return std::move(claimed).error();
  ours.last_mutation = claimed->begun;
  ours.journal_known = claimed->known;
  return {};
}

void AgentSession::on_ready(const wire::Hello&) {
  files_ = std::make_unique<FileService>(FileServiceContext{services_.loop, services_.root, services_.pool,
                                                            services_.journals, journal_,
                                                            [this] { return session_->backlog(); }});
}

void AgentSession::on_drained() {
  if (files_) files_->on_drained();
}

Result<void> AgentSession::take_over(mux::Greeter::Greeted& client, const Access& shown) {
  if (auto taken = session_->take_over(client.transport, client.hello); !taken) return taken;
  // What it shows may be newer than what the session has. Only a bound can be in the way.
  if (auto added = options_.access.add(shown, services_.admission.now()); !added)
    base::log_debug("a client's grant is not added: " + added.error().message());
  return {};
}

void AgentSession::on_detached(const Error& reason) {
  services_.loop.cancel(lock_timer_);
  lock_timer_ = services_.loop.schedule(std::min(options_.lock_grace, options_.lease), [this] {
    if (files_->give_locks_back()) locks_lost_ = true;
  });
  owner_.on_session_detached(key_, reason);
}

void AgentSession::on_resumed(const wire::Hello&) {
  services_.loop.cancel(lock_timer_);
  owner_.on_session_resumed(key_);
}

void AgentSession::on_request(mux::Message message, mux::Responder responder) {
  locks_lost_ = false;  // who asks has read our hello, which said so
  auto request = wire::decode_request(message.head);
  if (!request) return responder.fail(request.error());
  const Identities& self = services_.root.identities();
  if (auto allowed = options_.access.check(*request, {self.uid(), self.gid()}, services_.admission.now()); !allowed)
    return refuse(request->body, std::move(responder), allowed.error());
  if (is_file_request(request->body))
    return files_->handle(std::move(*request), std::move(message.body), std::move(responder));
  std::visit(
      [&](auto& body) {
        if constexpr (requires { handle(request->context, std::move(body), std::move(responder)); })
          handle(request->context, std::move(body), std::move(responder));
        else
          responder.fail(
              make_error(Errc::unsupported, wire::request_name(request->body), "not a service of this agent"));
      },
      request->body);
}

void AgentSession::refuse(const wire::RequestBody& request, mux::Responder responder, const Error& why) {
  if (const auto* spawn = std::get_if<wire::Spawn>(&request))
    if (auto channels = take_channels(*spawn)) channels->reset(why);
  responder.fail(why);
}

void AgentSession::on_closed(const Error& reason) {
  files_.reset();
  services_.loop.cancel(lock_timer_);
  services_.processes.session_over(key_);
  owner_.on_session_closed(key_, reason);
}

Result<void> AgentSession::check(const wire::RequestContext& context, wire::Spawn& request) const {
  if (context.caller && context.caller->uid != services_.root.identities().uid())
    return make_error(Errc::unsupported, "spawn",
                      "this agent runs commands as its own user (uid " +
                          std::to_string(services_.root.identities().uid()) + ") only");
  if (!context.after) return {};
  if (request.after) return make_error(Errc::invalid, "spawn", "it is to wait for two mutations");
  request.after = wire::Spawn::After{journal_, context.after};
  return {};
}

Result<ProcessChannels> AgentSession::take_channels(const wire::Spawn& request) {
  ProcessChannels channels;
  bool complete = true;
  auto take = [&](wire::ChannelId id, std::shared_ptr<mux::Channel>& into) {
    if (id) into = session_->take_channel(id);
    complete = complete && (!id || into);
  };
  take(request.stdin_channel, channels.in);
  take(request.stdout_channel, channels.out);
  take(request.stderr_channel, channels.err);
  if (complete) return channels;
  Error error = make_error(Errc::invalid, "spawn", "a stream of it is not open, or has a use already");
  channels.reset(error);
  return error;
}

void AgentSession::handle(const wire::RequestContext& context, wire::Spawn request, mux::Responder responder) {
  auto channels = take_channels(request);
  if (!channels) return responder.fail(channels.error());
  if (auto checked = check(context, request); !checked) {
    channels->reset(checked.error());
    return responder.fail(checked.error());
  }
  auto answer = std::make_shared<mux::Responder>(std::move(responder));
  answer->on_cancel([&processes = services_.processes, id = request.id] { processes.cancel_spawn(id); });
  services_.processes.spawn(key_, std::move(request), std::move(*channels),
                            [answer, &root = services_.root](Result<wire::Spawn::Reply> reply) {
                              if (reply)
                                send(*answer, root.change(), *reply);
                              else
                                answer->fail(reply.error());
                            });
}

void AgentSession::handle(const wire::RequestContext&, const wire::WaitProcess& request, mux::Responder responder) {
  auto answer = std::make_shared<mux::Responder>(std::move(responder));
  const WaitTicket ticket = services_.processes.wait(request.id, [answer](Result<wire::WaitProcess::Reply> reply) {
    if (reply)
      send(*answer, reply->change, *reply);
    else
      answer->fail(reply.error());
  });
  answer->on_cancel([&processes = services_.processes, ticket] { processes.cancel_wait(ticket); });
}

void AgentSession::handle(const wire::RequestContext&, const wire::SignalProcess& request, mux::Responder responder) {
  if (auto done = services_.processes.signal(request.id, request.signal); !done) return responder.fail(done.error());
  send(responder, services_.root.change(), wire::EmptyReply{});
}

void AgentSession::handle(const wire::RequestContext&, const wire::Authorize& request, mux::Responder responder) {
  if (auto added = services_.admission.authorize(options_.access, request.token); !added)
    return responder.fail(added.error());
  send(responder, services_.root.change(), wire::EmptyReply{});
}

}  // namespace sandbar::agent
