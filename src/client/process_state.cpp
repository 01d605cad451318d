// SPDX-License-Identifier: Apache-2.0
#include "client/process_state.h"

#include <cerrno>
#include <csignal>
#include <utility>

#include "client/remote_files.h"

namespace sandbar::client {
namespace {

/// wait(2) and signal(7).
constexpr std::uint32_t kMaxExitCode = 255;
constexpr std::uint32_t kMaxSignal = 64;

Error gone() { return make_error(Errc::disconnected, "", "the connection to the sandbox is lost"); }

Error nobody_reads() { return os_error(EPIPE, "write", "the process does not read its input any more"); }

/// What a lost session leaves of a command: nobody knows, and an exit code must not be made up. An agent that forgot
/// the session has hung the command up, as a terminal does; one that was restarted may not have.
Error unknown_if_lost(Error error, const char* what) {
  if (error.code != Errc::disconnected && error.code != Errc::unknown) return error;
  return make_error(Errc::unknown, std::move(error.operation),
                    std::string("the session with the sandbox was lost; it is not known whether the command ") + what);
}

/// Decodes the reply to `Req`; a reply of another kind is the peer's fault.
template <class Req>
Result<typename Req::Reply> reply_of(Result<RemoteFs::AnyAnswer> answer) {
  if (!answer) return std::move(answer).error();
  auto* reply = std::get_if<typename Req::Reply>(&answer->reply);
  if (reply == nullptr) return make_error(Errc::protocol, "read the reply", "it is of another kind than the request");
  return std::move(*reply);
}

}  // namespace

// --- OutputCredit, Outcome -------------------------------------------------------------------------------------

OutputCredit::OutputCredit(std::weak_ptr<LoopState> loop, std::weak_ptr<ProcessState> process, OutputStream stream)
    : loop_(std::move(loop)), process_(std::move(process)), stream_(stream) {}

void OutputCredit::give_back(std::size_t bytes) {
  const auto loop = loop_.lock();
  if (!loop) return;
  auto give = [process = process_, stream = stream_, bytes] {
    if (const auto state = process.lock()) state->consumed(stream, bytes);
  };
  if (loop->loop.is_current()) return give();
  loop->loop.post(std::move(give));
}

void Outcome::set(Result<ExitStatus> result) {
  const std::lock_guard lock(mutex_);
  if (!result_) result_.emplace(std::move(result));
  changed_.notify_all();
}

Result<ExitStatus> Outcome::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return result_.has_value(); });
  return *result_;
}

// --- The streams -----------------------------------------------------------------------------------------------

void ProcessState::Input::on_data(base::Bytes data) { channel->consumed(data.size()); }

void ProcessState::Input::on_reset(const Error& reason) {
  channel.reset();
  process_.on_lost_input(reason);
}

ProcessState::Output::Output(ProcessState& process, OutputSink sink) : process_(process), sink_(std::move(sink)) {}

void ProcessState::Output::on_data(base::Bytes data) {
  if (!sink_) return channel->consumed(data.size());
  const auto keep = process_.shared_from_this();  // the sink may drop the Process
  sink_(OutputChunk(std::move(data), credit));
}

void ProcessState::Output::on_end() {
  const auto keep = process_.shared_from_this();
  channel->end();  // both directions are over: the session forgets the channel
  channel->set_handler(nullptr);
  over = true;
  if (sink_) sink_(OutputChunk({}, nullptr));
  process_.maybe_finish();
}

void ProcessState::Output::on_reset(const Error& reason) {
  over = true;
  broken = reason;
  process_.maybe_finish();
}

void ProcessState::Output::close() {
  if (over) return;
  over = true;
  if (channel) channel->reset(os_error(EPIPE, "read", "the reader is gone"));
  process_.maybe_finish();
}

// --- The process -----------------------------------------------------------------------------------------------

ProcessState::ProcessState(const std::shared_ptr<LoopState>& loop, std::string id, OutputSink out, OutputSink err)
    : loop_(loop), id_(std::move(id)), in_(*this), out_(*this, std::move(out)), err_(*this, std::move(err)) {}

ProcessState::~ProcessState() { release_channels(make_error(Errc::cancelled, "", "the process was let go")); }

std::shared_ptr<mux::Channel> ProcessState::open(mux::Session& session, mux::Channel::Handler& handler) {
  auto channel = session.open_channel();
  channel->set_handler(&handler);
  return channel;
}

void ProcessState::start(wire::Spawn spawn, bool has_input, base::Duration timeout, base::OneShot<std::uint32_t> done) {
  const auto loop = loop_.lock();
  if (!loop || !loop->connection) return done(gone());
  mux::Session& session = loop->connection->session();
  const auto self = shared_from_this();
  out_.credit = std::make_shared<OutputCredit>(loop_, weak_from_this(), OutputStream::standard_output);
  err_.credit = std::make_shared<OutputCredit>(loop_, weak_from_this(), OutputStream::standard_error);
  if (has_input) spawn.stdin_channel = (in_.channel = open(session, in_))->id();
  spawn.stdout_channel = (out_.channel = open(session, out_))->id();
  spawn.stderr_channel = (err_.channel = open(session, err_))->id();
  RemoteFs& remote = loop->connection->files();
  remote.submit({}, std::move(spawn), {}, {timeout},
                [self, done = std::move(done), may_go = session.ready()](Result<RemoteFs::AnyAnswer> answer) mutable {
                  auto reply = reply_of<wire::Spawn>(std::move(answer));
                  if (reply) return done(reply->pid);
                  // Nobody will hold it: one that started after all must not stay.
                  if (reply.error().code == Errc::timeout) self->signal(SIGHUP, {}, [](const Result<void>&) {});
                  Error error = may_go ? unknown_if_lost(std::move(reply).error(), "was started") : reply.error();
                  self->finish(error);
                  done(std::move(error));
                });
  // Without waiting for the answer: a short command costs one round trip.
  remote.submit({}, wire::WaitProcess{id_}, {}, {},
                [self](Result<RemoteFs::AnyAnswer> answer) { self->on_exit(std::move(answer)); });
}

void ProcessState::signal(std::uint32_t number, base::Duration timeout, base::OneShot<void> done) {
  const auto loop = loop_.lock();
  if (!loop || !loop->connection) return done(gone());
  loop->connection->files().submit({}, wire::SignalProcess{id_, number}, {}, {timeout},
                                   [done = std::move(done)](Result<RemoteFs::AnyAnswer> answer) mutable {
                                     if (!answer) return done(std::move(answer).error());
                                     done({});
                                   });
}

void ProcessState::close_output(OutputStream stream) { output(stream).close(); }

void ProcessState::consumed(OutputStream stream, std::size_t bytes) {
  Output& from = output(stream);
  if (from.channel && !from.over) from.channel->consumed(bytes);
}

void ProcessState::feed() {
  if (!in_.channel) return;
  while (const std::size_t budget = in_.channel->budget()) {
    base::Bytes bytes = input.pop(budget);
    if (bytes.empty()) break;
    in_.channel->write(std::move(bytes));
  }
  if (input.take_end()) in_.channel->end();
}

void ProcessState::on_lost_input(const Error& reason) {
  input.fail(reason.code == Errc::disconnected ? reason : nobody_reads());
}

void ProcessState::on_exit(Result<RemoteFs::AnyAnswer> answer) {
  auto reply = reply_of<wire::WaitProcess>(std::move(answer));
  if (!reply) return finish(unknown_if_lost(std::move(reply).error(), "finished"));
  // An agent can lie: what no process can end with must not become a code that means something else.
  if (reply->code > kMaxExitCode || reply->signal > kMaxSignal)
    return finish(make_error(Errc::protocol, "read how the command ended", "no process can end so"));
  status_ = ExitStatus{static_cast<int>(reply->code), static_cast<int>(reply->signal), reply->core_dumped};
  ended = true;
  input.fail(nobody_reads());
  maybe_finish();
}

void ProcessState::maybe_finish() {
  if (!status_ || !out_.over || !err_.over) return;
  for (const Output* stream : {&out_, &err_})
    if (stream->broken) return finish(*stream->broken);
  finish(*status_);
}

void ProcessState::finish(Result<ExitStatus> result) {
  if (std::exchange(finished_, true)) return;
  ended = true;
  release_channels(make_error(Errc::cancelled, "", "the process has ended"));
  input.fail(result ? nobody_reads() : result.error());
  outcome.set(std::move(result));
}

void ProcessState::release_channels(const Error& reason) {
  for (mux::Channel* channel :
       {in_.channel.get(), out_.over ? nullptr : out_.channel.get(), err_.over ? nullptr : err_.channel.get()}) {
    if (channel == nullptr) continue;
    channel->set_handler(nullptr);
    channel->reset(reason);
  }
  in_.channel.reset();
  out_.over = err_.over = true;
}

void ProcessState::abandon() {
  if (finished_) return;
  signal(SIGHUP, {}, [](const Result<void>&) {});
  finish(make_error(Errc::cancelled, "wait", "the process was let go"));
}

}  // namespace sandbar::client
