// SPDX-License-Identifier: Apache-2.0
// Both ends of a session over connections that break, on a clock and a network that only the dice move. A schedule is
// its seed: SANDBAR_SEED=n runs that one alone. SANDBAR_SOAK=1 runs a million.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "unit/mux/simulation.h"

namespace sandbar::mux {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

/// Cases of ctest's, which runs them side by side and gives each its time.
constexpr std::uint64_t kShards = 32;

std::uint64_t schedules() {
  const char* soak = std::getenv("SANDBAR_SOAK");
  if (soak != nullptr && std::string(soak) == "1") return 1'000'000;
  return kSanitized ? 3'000 : 30'000;
}

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : chance_(seed),
        client_(chance_, streams_, true),
        agent_(chance_, streams_, false),
        lobby_(loop_, agent_),
        network_(chance_, loop_, lobby_) {
    lobby_.busy = [this] { return !healed_ && chance_.one_in(10); };
    client_.peer = &agent_;
    agent_.peer = &client_;
  }

  /// What went wrong; empty when nothing did.
  std::string run() {
    begin();
    const std::size_t steps = 40 + chance_.below(200);
    for (std::size_t i = 0; i < steps && chance_.fault.empty(); ++i) step();
    if (chance_.fault.empty()) finish();
    return chance_.fault;
  }
  [[nodiscard]] std::uint64_t resumes() const { return session_->stats().resumes; }

 private:
  void begin() {
    session_ = std::make_unique<Session>(loop_, network_.connect(), resumable_client(), client_);
    client_.session = session_.get();
    for (std::size_t i = chance_.below(4); i > 0; --i) client_.ask();
    network_.heal();
    while (!session_->ready()) {
      loop_.drain();
      network_.deliver_some();
    }
    agent_.session = lobby_.sessions.at("session-1").get();
  }

  void step() {
    switch (chance_.below(24)) {
      case 0:
        return pass_time();
      case 1:
        if (chance_.one_in(2)) network_.break_one();
        return;
      case 2:
        return network_.tell();
      case 3:
      case 4:
        return network_.arrive();
      case 5:
        if (client_.detached || chance_.one_in(8)) come_back();
        return;
      case 6:
      case 7:
      case 8:
        return client_.act();
      case 9:
      case 10:
        return agent_.act();
      case 11:
        return move_streams();
      case 12:
        loop_.step();
        return;
      case 13:
        loop_.drain();
        return;
      default:
        return network_.deliver_some();
    }
  }

  void pass_time() {
    static constexpr milliseconds kTimes[] = {milliseconds(1),    milliseconds(30),    milliseconds(100),
                                              milliseconds(100),  milliseconds(150),   milliseconds(500),
                                              milliseconds(4000), milliseconds(11'000)};
    loop_.advance(kTimes[chance_.below(std::size(kTimes))]);
  }

  void come_back() {
    // The agent need not hear of the loss, or may hear of it long after.
    if (chance_.one_in(2)) network_.break_newest();
    client_.detached = false;
    session_->resume(network_.connect());
  }

  void move_streams() {
    for (auto& [id, stream] : streams_)
      for (auto& end : stream.ends)
        if (end) end->push(), end->consume();
  }

  [[nodiscard]] bool at_rest() const {
    for (const auto& [id, stream] : streams_)
      if (!stream.done()) return false;
    return client_.at_rest() && agent_.at_rest();
  }

  /// The network is whole again: all must come to its end.
  void finish() {
    healed_ = true;
    int round = 0;
    do {
      network_.heal();
      network_.deliver_all();
      if (client_.detached) come_back_for_good();
      client_.answer_one();
      agent_.answer_one();
      move_streams();
      network_.deliver_all();
      loop_.advance(milliseconds(100));
    } while (++round < 500 && chance_.fault.empty() && !at_rest());
    chance_.check(at_rest(), "it does not come to rest");
    client_.check_requests();
    agent_.check_requests();
    // What is left of old connections goes, and the session stays.
    for (int second = 0; second < 30; ++second) {
      network_.heal();
      network_.deliver_all();
      loop_.advance(seconds(1));
    }
    network_.deliver_all();
    loop_.advance(milliseconds(200));
    chance_.check(at_rest(), "it does not stay at rest");
    chance_.check(lobby_.greeters() == 0, "a greeter is left");
    chance_.check(loop_.timers() == 2, "a timer is left beyond those of the liveness");
    for (const Error& refused : lobby_.refused)
      chance_.check(refused.detail == "a later connection has taken it up", "a connection was refused");
    chance_.check(agent_.session->stats().resumes >= session_->stats().resumes, "resumes without the agent");
  }
  void come_back_for_good() {
    client_.detached = false;
    session_->resume(network_.connect());
  }

  fakes::FakeLoop loop_;
  Chance chance_;
  Streams streams_;
  Party client_;
  Party agent_;
  Lobby lobby_;
  Network network_;
  std::unique_ptr<Session> session_;
  bool healed_ = false;
};

class ResumeSimulation : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ResumeSimulation, NothingIsLostRepeatedOrReordered) {
  std::uint64_t resumes = 0;
  const auto run = [&resumes](std::uint64_t seed) {
    Simulation simulation(seed);
    const std::string fault = simulation.run();
    resumes += simulation.resumes();
    ASSERT_EQ(fault, "") << "see it again with SANDBAR_SEED=" << seed;
  };
  if (const char* seed = std::getenv("SANDBAR_SEED")) return run(std::strtoull(seed, nullptr, 10));
  const std::uint64_t count = schedules();
  for (std::uint64_t seed = GetParam(); seed < count && !HasFatalFailure(); seed += kShards) run(seed);
  EXPECT_GT(resumes, count / kShards / 2) << "the schedules break too little";
}

INSTANTIATE_TEST_SUITE_P(Shards, ResumeSimulation, testing::Range<std::uint64_t>(0, kShards));

}  // namespace
}  // namespace sandbar::mux
