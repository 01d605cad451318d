// SPDX-License-Identifier: Apache-2.0
#include "client/client_core.h"

#include <csignal>
#include <utility>

namespace sandbar::client {
namespace {

/// Collects a batch's answers and completes when the last one is there.
struct Gathering {
  std::vector<std::optional<Result<RemoteFs::AnyAnswer>>> answers;
  std::size_t missing = 0;
  base::OneShot<ClientCore::Answers> done;

  void put(std::size_t index, Result<RemoteFs::AnyAnswer> answer) {
    answers[index] = std::move(answer);
    if (--missing > 0) return;
    ClientCore::Answers all;
    all.reserve(answers.size());
    for (auto& each : answers) all.push_back(std::move(*each));
    done(std::move(all));
  }
};

Error disconnected() { return make_error(Errc::disconnected, "", "the connection to the sandbox is lost"); }

void submit_all(LoopState& state, std::vector<ClientCore::Call> calls, CallOptions options,
                base::OneShot<ClientCore::Answers> done) {
  if (!state.connection) return done(disconnected());
  auto gathering = std::make_shared<Gathering>();
  gathering->answers.resize(calls.size());
  gathering->missing = calls.size();
  gathering->done = std::move(done);
  for (std::size_t i = 0; i < calls.size(); ++i)
    state.connection->files().submit(
        {}, std::move(calls[i].request), std::move(calls[i].body), options,
        [gathering, i](Result<RemoteFs::AnyAnswer> answer) { gathering->put(i, std::move(answer)); });
}

/// The program's handlers are for its own threads; and SIGPIPE, which a write to a command that has ended raises, would
/// end a program that does not ignore it.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

Result<std::shared_ptr<ClientCore>> ClientCore::open(const Target& target, const ClientOptions& options) {
  auto core = std::make_shared<ClientCore>(target, options);
  if (auto connected = core->connect(options); !connected) return std::move(connected).error();
  return core;
}

ClientCore::ClientCore(const Target& target, const ClientOptions& options)
    : target_(target), request_timeout_(options.request_timeout), state_(std::make_shared<LoopState>()) {
  thread_ = std::thread([state = state_] {
    block_signals();
    state->loop.run();
  });
}

ClientCore::~ClientCore() {
  // The state is held by the thread and by us: a raw pointer, because a task that owns its loop would never go.
  state_->loop.post([state = state_.get()] {
    state->pending.reset();
    state->connection.reset();
    // Posted: what the connection's end completes runs before the loop stops.
    state->loop.post([state] { state->loop.stop(); });
  });
  if (on_own_thread())
    thread_.detach();  // the last owner was an output sink's; the thread holds the state until it has stopped
  else
    thread_.join();
}

Result<void> ClientCore::connect(const ClientOptions& options) {
  ConnectionOptions connection;
  connection.token = options.token;
  connection.ca_file = options.ca_file;
  connection.insecure = options.insecure;
  if (!options.grant_command.empty()) {
    if (options.access.empty()) return make_error(Errc::invalid, "", "no kind of access is asked for");
    connection.grants = make_command_source({.command = options.grant_command, .target = target_});
    connection.kinds.clear();
    for (const AccessKind kind : options.access)
      connection.kinds.push_back(kind == AccessKind::files ? GrantKind::files : GrantKind::shell);
  }
  connection.timeout = options.connect_timeout;
  connection.reconnect = options.reconnect;
  LoopState& state = *state_;
  const auto agent =
      await<AgentInfo>([this, &state, connection, notices = options.notices](base::OneShot<AgentInfo> done) mutable {
        auto opened = [&state, notices, done = std::move(done)](Result<std::unique_ptr<Connection>> result) mutable {
          if (!result) return done(std::move(result).error());
          state.connection = std::move(result).value();
          state.connection->on_lost([&state](const Error&) { state.lost = true; });
          state.connection->on_event([&state, notices](const ConnectionEvent& event) {
            state.lost = !state.connection->attached();
            if (const std::string text = notice_text(event); notices && !text.empty()) notices(text);
          });
          const wire::Hello& hello = state.connection->agent();
          done(AgentInfo{hello.software, hello.root, hello.uid, hello.gid});
        };
        state.pending = open_connection(state.loop, target_, std::move(connection), std::move(opened));
      });
  if (!agent) return agent.error();
  agent_ = *agent;
  return {};
}

ClientCore::Answers ClientCore::exchange(std::vector<Call> calls) {
  const std::size_t count = calls.size();
  auto answers = await<Answers>([state = state_.get(), calls = std::move(calls),
                                 options = CallOptions{request_timeout_}](base::OneShot<Answers> done) mutable {
    submit_all(*state, std::move(calls), options, std::move(done));
  });
  if (answers) return std::move(answers).value();
  Answers failed;
  for (std::size_t i = 0; i < count; ++i) failed.push_back(answers.error());
  return failed;
}

void ClientCore::send(std::vector<Call> calls) {
  post([state = state_.get(), calls = std::move(calls), options = CallOptions{request_timeout_}]() mutable {
    submit_all(*state, std::move(calls), options, [](const Result<Answers>&) {});
  });
}

Error ClientCore::own_thread_error() {
  return make_error(Errc::invalid, "", "a call that waits was made on the library's own thread (in an output sink)");
}

}  // namespace sandbar::client
