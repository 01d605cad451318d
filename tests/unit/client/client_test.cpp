// SPDX-License-Identifier: Apache-2.0
// The public library against an agent whose answers are written here: connecting, and the protocol of a process.
#include "sandbar/client.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fakes/fake_agent.h"
#include "wire/limits.h"

namespace sandbar {
namespace {

using fakes::FakeAgent;
using std::chrono::milliseconds;

/// An event that a test waits for. Waiting for it in vain ends in ctest's time limit.
class Event {
 public:
  void set() {
    if (!std::exchange(is_set_, true)) promise_.set_value();
  }
  void wait() { future_.wait(); }

 private:
  bool is_set_ = false;
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

/// One end of a stream on the agent's side; all on the agent's thread.
struct AgentStream : mux::Channel::Handler {
  void on_data(base::Bytes data) override {
    received += data;
    const std::size_t size = data.size();
    if (consumes) channel->consumed(size);
    if (on_received) on_received();
  }
  void on_end() override {
    ended = true;
    if (on_received) on_received();
  }
  void on_reset(const Error& reason) override {
    reset = reason;
    if (on_received) on_received();
  }
  void on_writable() override { pump(); }
  /// Writes what `to_send` still holds, as credit comes.
  void pump() {
    while (!to_send.empty() && channel->budget() > 0) {
      const std::size_t size = std::min(channel->budget(), to_send.size());
      channel->write(to_send.substr(0, size));
      to_send.erase(0, size);
      sent += size;
    }
    if (to_send.empty() && ends && !std::exchange(end_sent, true)) channel->end();
  }
  void send(base::Bytes bytes, bool and_end) {
    to_send += bytes;
    ends = and_end;
    pump();
  }

  std::shared_ptr<mux::Channel> channel;
  base::Bytes received, to_send;
  std::size_t sent = 0;
  bool consumes = true, ended = false, ends = false, end_sent = false;
  std::optional<Error> reset;
  base::Function<void()> on_received;
};

/// A process as the agent sees it. Members belong to the agent's thread: use agent.run().
struct AgentProcess {
  wire::Spawn spawn;
  mux::Responder spawned, waiting;
  AgentStream in, out, err;
  std::vector<std::uint32_t> signals;
  Event asked;      ///< spawn and wait have both arrived
  Event signalled;  ///< a signal has
  bool answers_spawn = true;

  static void take(mux::Session& session, AgentStream& stream, wire::ChannelId id) {
    if (!id) return;
    stream.channel = session.take_channel(id);
    stream.channel->set_handler(&stream);
  }
  void on_request(mux::Session& session, wire::Request request, mux::Responder responder) {
    if (auto* asked_for = std::get_if<wire::Spawn>(&request.body)) {
      spawn = *asked_for;
      spawned = std::move(responder);
      take(session, in, spawn.stdin_channel);
      take(session, out, spawn.stdout_channel);
      take(session, err, spawn.stderr_channel);
    } else if (std::get_if<wire::WaitProcess>(&request.body) != nullptr) {
      waiting = std::move(responder);
      if (answers_spawn) spawned.reply(FakeAgent::reply(wire::Spawn::Reply{77}));
      asked.set();
    } else if (auto* signal = std::get_if<wire::SignalProcess>(&request.body)) {
      signals.push_back(signal->signal);
      responder.reply(FakeAgent::reply(wire::EmptyReply{}));
      signalled.set();
    }
  }
  void exit(std::uint32_t code, std::uint32_t signal = 0, bool core = false) {
    waiting.reply(FakeAgent::reply(wire::WaitProcess::Reply{code, signal, core, {}}));
  }
  ~AgentProcess() {
    for (AgentStream* stream : {&in, &out, &err})
      if (stream->channel) stream->channel->set_handler(nullptr);
  }
};

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() { start({}); }
  ~ClientTest() override {
    client_.reset();
    agent_.reset();
  }

  void start(FakeAgent::Script script) {
    if (!script.on_request)
      script.on_request = [this](mux::Session& session, wire::Request request, const base::Bytes&,
                                 mux::Responder responder) {
        process_.on_request(session, std::move(request), std::move(responder));
      };
    agent_ = std::make_unique<FakeAgent>(std::move(script));
  }
  Target target() const { return Target::parse(agent_->target() + ":/work").value(); }
  Client& client() {
    if (!client_) {
      auto connected = Client::connect(target());
      if (!connected) {
        ADD_FAILURE() << connected.error().message();
        std::abort();
      }
      client_.emplace(std::move(connected).value());
    }
    return *client_;
  }
  Process spawn(ProcessOptions options = {}) {
    if (options.argv.empty()) options.argv = {"cmd"};
    auto process = client().spawn(std::move(options));
    if (!process) {
      ADD_FAILURE() << process.error().message();
      std::abort();
    }
    return std::move(process).value();
  }
  void end_outputs() {
    process_.out.send({}, true);
    process_.err.send({}, true);
  }

  AgentProcess process_;
  std::unique_ptr<FakeAgent> agent_;
  std::optional<Client> client_;
};

OutputSink into(std::string& text) {
  return [&text](const OutputChunk& chunk) { text += chunk.bytes(); };
}

// --- Connecting ------------------------------------------------------------------------------------------------

TEST_F(ClientTest, ShowsWhatTheAgentSaysOfItself) {
  EXPECT_EQ(client().agent().software, "fake 1");
  EXPECT_EQ(client().agent().root, "/srv");
  EXPECT_EQ(client().target().directory, "/work");
  EXPECT_TRUE(client().connected());
}

TEST_F(ClientTest, SaysThatNobodyAnswersThere) {
  const auto connected = Client::connect(Target::parse("unix:/no/such/socket").value());
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, Errc::disconnected);
  EXPECT_NE(connected.error().message().find("unix:/no/such/socket"), std::string::npos);
}

TEST_F(ClientTest, ARefusedTokenIsInNoMessage) {
  FakeAgent::Script script;
  script.token = "right";
  start(std::move(script));
  for (const char* token : {"", "wrong-secret"}) {
    const auto connected = Client::connect(target(), {.token = token});
    ASSERT_FALSE(connected.ok());
    EXPECT_EQ(connected.error().code, Errc::unauthorized);
    EXPECT_NE(connected.error().message().find("--token-file"), std::string::npos) << connected.error().message();
    EXPECT_EQ(connected.error().message().find("secret"), std::string::npos);
  }
  EXPECT_TRUE(Client::connect(target(), {.token = "right"}).ok());
}

TEST_F(ClientTest, AnAgentWithoutFilesIsOfAnotherVersion) {
  FakeAgent::Script script;
  script.hello.capabilities = {"files.posix.2"};
  start(std::move(script));
  const auto connected = Client::connect(target());
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, Errc::unsupported);
  EXPECT_NE(connected.error().message().find(agent_->target()), std::string::npos);
}

TEST_F(ClientTest, AnAgentThatSaysNothingTimesOut) {
  FakeAgent::Script script;
  script.is_silent = true;
  start(std::move(script));
  const auto connected = Client::connect(target(), {.connect_timeout = milliseconds(100)});
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, Errc::timeout);
}

TEST_F(ClientTest, TheConnectionEndsWithTheLastThatUsesIt) {
  std::optional<Files> files = client().files();
  client_.reset();
  EXPECT_EQ(files->stat("/x").error().code, Errc::internal) << "dropped unanswered, but the connection is there";
  files.reset();
  while (agent_->sessions() > 0) std::this_thread::yield();
}

// --- A process' start ------------------------------------------------------------------------------------------

TEST_F(ClientTest, SpawnAndWaitLeaveTogether) {
  // The script answers the spawn only once the wait is there: else this never returns.
  Process process = spawn({.argv = {"cmd", "a b"}, .environment = {"A=b"}, .directory = "/else"});
  EXPECT_EQ(process.pid(), 77U);
  EXPECT_EQ(process.id().size(), 32U);
  agent_->run([&] {
    EXPECT_EQ(process_.spawn.id, process.id());
    EXPECT_EQ(process_.spawn.argv, (std::vector<base::Bytes>{"cmd", "a b"}));
    EXPECT_EQ(process_.spawn.env, (std::vector<base::Bytes>{"A=b"}));
    EXPECT_EQ(process_.spawn.cwd, "/else");
    EXPECT_FALSE(process_.spawn.stdin_channel);
  });
}

TEST_F(ClientTest, WithoutADirectoryItIsTheTargets) {
  Process process = spawn();
  agent_->run([&] { EXPECT_EQ(process_.spawn.cwd, "/work"); });
}

TEST_F(ClientTest, ACommandThatCannotBeExecutedIsNamed) {
  process_.answers_spawn = false;
  auto refused = std::async(std::launch::async, [&] { return client().spawn({.argv = {"nosuch"}}).error(); });
  process_.asked.wait();
  agent_->run([&] { process_.spawned.fail(os_error(ENOENT, "exec", "nosuch")); });
  const Error error = refused.get();
  EXPECT_EQ(error.code, Errc::os);
  EXPECT_EQ(error.os_errno, ENOENT);
  EXPECT_EQ(error.operation, "exec");
  EXPECT_NE(error.message().find("nosuch"), std::string::npos);
}

TEST_F(ClientTest, OptionsThatCanNeverBeRightReachNoAgent) {
  const std::string zero("a\0b", 3);
  const std::vector<ProcessOptions> bad = {{},
                                           {.argv = {""}},
                                           {.argv = {"c", zero}},
                                           {.argv = {"c"}, .environment = {"A"}},
                                           {.argv = {"c"}, .environment = {"=b"}},
                                           {.argv = {"c"}, .environment = {"A=" + zero}},
                                           {.argv = {"c"}, .directory = zero},
                                           {.argv = {"c"}, .directory = std::string(4096, 'd')}};
  for (const auto& options : bad) EXPECT_EQ(client().spawn(options).error().code, Errc::invalid);
  const ProcessOptions many = {.argv = std::vector<std::string>(wire::kMaxArray + 1, "x")};
  EXPECT_EQ(client().spawn(many).error().code, Errc::limit);
  const ProcessOptions large = {.argv = {"c", std::string(wire::kMaxHead, 'x')}};
  EXPECT_EQ(client().spawn(large).error().code, Errc::limit);
  agent_->run([&] { EXPECT_TRUE(process_.spawn.id.empty()); });
}

// --- A process' output and end ---------------------------------------------------------------------------------

TEST_F(ClientTest, WaitReturnsAfterTheLastByteAlsoWhenTheEndCameFirst) {
  std::string out;
  std::string err;
  Process process = spawn({.argv = {"cmd"}, .standard_output = into(out), .standard_error = into(err)});
  const std::string much(3 * wire::kChannelWindow + 1, 'o');
  agent_->run([&] {
    process_.exit(7);
    process_.err.send("error text", true);
    process_.out.send(much, true);
  });
  const auto status = process.wait();
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(status->code, 7);
  EXPECT_EQ(status->signal, 0);
  EXPECT_EQ(out, much);
  EXPECT_EQ(err, "error text");
  EXPECT_TRUE(process.ended());
  EXPECT_EQ(process.wait()->code, 7) << "again";
}

TEST_F(ClientTest, TheSinkIsToldTheEndOnceAndLast) {
  std::vector<std::string> chunks;
  Process process = spawn({.argv = {"cmd"}, .standard_output = [&](const OutputChunk& chunk) {
                             chunks.push_back(chunk.is_end() ? "END" : std::string(chunk.bytes()));
                           }});
  agent_->run([&] {
    process_.out.send("a", true);
    process_.err.send("thrown away", true);
    process_.exit(0);
  });
  ASSERT_TRUE(process.wait().ok());
  EXPECT_EQ(chunks, (std::vector<std::string>{"a", "END"}));
}

TEST_F(ClientTest, ASignalsEndIsTold) {
  Process process = spawn();
  agent_->run([&] {
    end_outputs();
    process_.exit(0, SIGSEGV, true);
  });
  const auto status = process.wait();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->signal, SIGSEGV);
  EXPECT_TRUE(status->core_dumped);
}

TEST_F(ClientTest, ALostConnectionIsNeverAnExitCode) {
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  agent_->run([&] { end_outputs(); });
  agent_->drop_sessions();
  EXPECT_EQ(process.wait().error().code, Errc::disconnected);
  EXPECT_EQ(process.write("x").error().code, Errc::disconnected);
  EXPECT_EQ(process.signal(SIGTERM).error().code, Errc::disconnected);
  EXPECT_EQ(client().spawn({.argv = {"cmd"}}).error().code, Errc::disconnected);
  EXPECT_EQ(client().files().stat("/").error().code, Errc::disconnected);
  while (client().connected()) std::this_thread::yield();
}

TEST_F(ClientTest, OutputThatIsLostIsNeverAnExitCode) {
  Process process = spawn();
  agent_->run([&] {
    process_.out.channel->reset(make_error(Errc::internal, "", "a disk on fire"));
    process_.err.send({}, true);
    process_.exit(0);
  });
  const auto status = process.wait();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("on fire"), std::string::npos);
}

TEST_F(ClientTest, ChunksThatAreHeldStopTheirStreamOnly) {
  std::vector<OutputChunk> held;
  std::size_t bytes = 0;
  Event full;
  Event other;
  Process process = spawn({.argv = {"cmd"},
                           .standard_output =
                               [&](OutputChunk chunk) {
                                 bytes += chunk.bytes().size();
                                 held.push_back(std::move(chunk));
                                 if (bytes == wire::kChannelWindow) full.set();
                               },
                           .standard_error = [&](const OutputChunk&) { other.set(); }});
  agent_->run([&] { process_.out.send(std::string(2 * wire::kChannelWindow, 'o'), true); });
  full.wait();
  agent_->run([&] {
    EXPECT_EQ(process_.out.channel->budget(), 0U);
    EXPECT_EQ(process_.out.sent, wire::kChannelWindow) << "no more than the window is on its way";
    process_.err.send("goes on", true);
    process_.exit(0);
  });
  other.wait();
  EXPECT_TRUE(process.signal(SIGUSR1).ok()) << "and so do requests";
  EXPECT_EQ(bytes, wire::kChannelWindow);
  std::vector<OutputChunk>(std::move(held)).clear();  // on this thread, not the library's
  held.clear();
  ASSERT_TRUE(process.wait().ok());
  EXPECT_EQ(bytes, 2 * wire::kChannelWindow);
}

TEST_F(ClientTest, ClosingAnOutputIsWhatTheProcessSees) {
  std::string out;
  Process process = spawn({.argv = {"cmd"}, .standard_output = into(out)});
  Event reset;
  agent_->run([&] { process_.out.on_received = [&] { reset.set(); }; });
  process.close_output(OutputStream::standard_output);
  reset.wait();
  agent_->run([&] {
    process_.out.on_received = nullptr;
    EXPECT_TRUE(process_.out.reset.has_value());
    process_.err.send({}, true);
    process_.exit(0, SIGPIPE);
  });
  const auto status = process.wait();
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(status->signal, SIGPIPE);
}

TEST_F(ClientTest, CallsThatBlockAreRefusedInASink) {
  std::vector<Errc> codes;
  std::optional<Process> process;
  Event ready;
  auto sink = [&](const OutputChunk& chunk) {
    if (chunk.is_end()) return;
    ready.wait();
    codes.push_back(process->wait().error().code);
    codes.push_back(process->write("x").error().code);
    codes.push_back(process->signal(SIGTERM).error().code);
    codes.push_back(client().files().stat("/").error().code);
    process->close_output(OutputStream::standard_error);  // does not block
  };
  process.emplace(spawn({.argv = {"cmd"}, .standard_output = sink}));
  ready.set();
  agent_->run([&] {
    process_.out.send("x", true);
    process_.exit(0);
  });
  EXPECT_TRUE(process->wait().ok());
  EXPECT_EQ(codes, std::vector<Errc>(4, Errc::invalid));
}

// --- Its input and signals -------------------------------------------------------------------------------------

TEST_F(ClientTest, InputArrivesInOrderAndEnds) {
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    const std::string piece = std::string(static_cast<std::size_t>(i) * 997, static_cast<char>('a' + i % 26));
    expected += piece;
    ASSERT_TRUE(process.write(piece).ok());
  }
  ASSERT_TRUE(process.close_input().ok());
  ASSERT_TRUE(process.close_input().ok()) << "again";
  EXPECT_EQ(process.write("late").error().os_errno, EPIPE);
  Event ended;
  agent_->run([&] {
    auto check = [&] {
      if (process_.in.ended) ended.set();
    };
    check();
    process_.in.on_received = check;
  });
  ended.wait();
  agent_->run([&] {
    EXPECT_EQ(process_.in.received, expected);
    process_.in.on_received = nullptr;
  });
}

TEST_F(ClientTest, AWriterWaitsForAProcessThatDoesNotRead) {
  constexpr std::size_t kTotal = 4 * wire::kChannelWindow;
  process_.in.consumes = false;
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  std::atomic<std::size_t> written{0};
  auto writer = std::async(std::launch::async, [&] {
    while (written < kTotal) {
      if (!process.write(std::string(64 * 1024, 'x'))) return false;
      written += 64 * 1024;
    }
    return process.close_input().ok();
  });
  Event full;
  Event ended;
  agent_->run([&] {
    process_.in.on_received = [&] {
      if (process_.in.received.size() == wire::kChannelWindow) full.set();
      if (process_.in.ended) ended.set();
    };
    if (process_.in.received.size() == wire::kChannelWindow) full.set();
  });
  full.wait();
  EXPECT_LT(written, kTotal);
  agent_->run([&] {
    EXPECT_EQ(process_.in.received.size(), wire::kChannelWindow);
    process_.in.consumes = true;
    process_.in.channel->consumed(wire::kChannelWindow);
  });
  EXPECT_TRUE(writer.get());
  ended.wait();
  agent_->run([&] {
    EXPECT_EQ(process_.in.received.size(), kTotal);
    process_.in.on_received = nullptr;
  });
}

TEST_F(ClientTest, AWriterIsReleasedWhenTheProcessEnds) {
  process_.in.consumes = false;
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  auto writer = std::async(std::launch::async, [&] {
    for (;;)
      if (auto written = process.write(std::string(64 * 1024, 'x')); !written) return written.error();
  });
  agent_->run([&] {
    end_outputs();
    process_.exit(0);
  });
  EXPECT_TRUE(process.wait().ok());
  EXPECT_EQ(writer.get().os_errno, EPIPE);
}

TEST_F(ClientTest, InputThatIsResetIsABrokenPipe) {
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  agent_->run([&] { process_.in.channel->reset(make_error(Errc::cancelled, "stdin", "closed")); });
  Result<void> written;
  while (written.ok()) written = process.write("x");
  EXPECT_EQ(written.error().os_errno, EPIPE);
}

TEST_F(ClientTest, SignalsAreSentByNumber) {
  Process process = spawn();
  EXPECT_TRUE(process.signal(SIGINT).ok());
  EXPECT_TRUE(process.signal(64).ok());
  for (const int number : {0, -1, 65}) EXPECT_EQ(process.signal(number).error().code, Errc::invalid);
  agent_->run([&] { EXPECT_EQ(process_.signals, (std::vector<std::uint32_t>{SIGINT, 64})); });
}

TEST_F(ClientTest, AProcessThatIsLetGoIsHungUpAndItsSinksAreNotCalledAnyMore) {
  {
    std::string out;
    Process process = spawn({.argv = {"cmd"}, .standard_output = into(out)});
  }
  process_.signalled.wait();
  Event reset;
  agent_->run([&] {
    EXPECT_EQ(process_.signals, (std::vector<std::uint32_t>{SIGHUP}));
    if (process_.out.reset) reset.set();
    process_.out.on_received = [&] { reset.set(); };
  });
  reset.wait();
  agent_->run([&] { process_.out.on_received = nullptr; });
}

TEST_F(ClientTest, ASinkMayDropTheProcess) {
  std::optional<Process> process;
  Event ready;
  Event dropped;
  process.emplace(spawn({.argv = {"cmd"}, .standard_output = [&](const OutputChunk&) {
                           ready.wait();
                           process.reset();
                           dropped.set();
                         }}));
  ready.set();
  agent_->run([&] { process_.out.send("x", false); });
  dropped.wait();
  process_.signalled.wait();
}

}  // namespace
}  // namespace sandbar
