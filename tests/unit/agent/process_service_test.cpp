// SPDX-License-Identifier: Apache-2.0
// Names, waits, signals, lost sessions and bounds.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "process_fixture.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

using ProcessServiceTest = ProcessFixture;

/// Until the process `pid`, which need not be our child, is gone or a zombie.
void await_death(pid_t pid) {
  const base::UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return;
  pollfd watched{fd.get(), POLLIN, 0};
  while (::poll(&watched, 1, -1) < 0 && errno == EINTR) {
  }
}

TEST_F(ProcessServiceTest, ALateWaitIsAnsweredAgainAndAgain) {
  run(shell("p", "exit 9"));
  for (int i = 0; i < 2; ++i) {
    auto late = std::make_shared<Started>();
    wait("p", late);
    EXPECT_FALSE(late->ended) << "never inside the call";
    run_until([&] { return late->ended.has_value(); });
    EXPECT_EQ((*late->ended)->code, 9U);
  }
}

TEST_F(ProcessServiceTest, AWaitForNothingIsRefused) {
  auto none = std::make_shared<Started>();
  wait("nobody", none);
  run_until([&] { return none->ended.has_value(); });
  EXPECT_EQ(none->ended->error().code, Errc::invalid);
}

TEST_F(ProcessServiceTest, AWaitCanBeGivenUp) {
  const auto started = spawn(shell("p", "cat"), true);
  auto given_up = std::make_shared<Started>();
  const WaitTicket ticket = service_->wait("p", [&](Result<wire::WaitProcess::Reply> reply) {
    given_up->ended = std::move(reply);
    real_loop_.stop();
  });
  service_->cancel_wait(ticket);
  run_until([&] { return given_up->ended.has_value(); });
  EXPECT_EQ(given_up->ended->error().code, Errc::cancelled);
  started->in->send_end();
  run_until([&] { return started->ended.has_value(); });
  EXPECT_TRUE(started->ended->ok()) << "the other wait is still answered";
}

TEST_F(ProcessServiceTest, ASecondSpawnOfANameStartsNothing) {
  const auto first = spawn(shell("p", "echo once >> made; cat"), true);
  const auto during = spawn(shell("p", "echo twice >> made"), false, SessionKey(2));  // the first is being started
  run_until([&] { return first->spawned && during->spawned; });
  const auto later = spawn(shell("p", "echo twice >> made"));
  run_until([&] { return later->spawned.has_value(); });
  EXPECT_EQ((*during->spawned)->pid, (*first->spawned)->pid);
  EXPECT_EQ((*later->spawned)->pid, (*first->spawned)->pid);
  EXPECT_TRUE(later->out->reset_reason);
  first->in->send_end();
  run_until([&] { return first->ended && during->ended && later->ended; });
  const auto after_end = spawn(shell("p", "echo twice >> made"));
  run_until([&] { return after_end->spawned.has_value(); });
  EXPECT_EQ((*after_end->spawned)->pid, (*first->spawned)->pid);
  std::string made;
  std::getline(std::ifstream(folder_ / "made"), made, '\0');
  EXPECT_EQ(made, "once\n");
}

TEST_F(ProcessServiceTest, ANameIsFreeAgainWhenItsSpawnFailed) {
  wire::Spawn bad;
  bad.id = "p";
  bad.argv = {"/no/such"};
  EXPECT_FALSE(run(bad)->spawned->ok());
  EXPECT_TRUE(run(shell("p", "true"))->spawned->ok());
}

TEST_F(ProcessServiceTest, NamesAreBounded) {
  EXPECT_TRUE(run(shell(std::string(wire::kMaxProcessId, 'a'), "true"))->spawned->ok());
  for (const std::string& id : {std::string(), std::string(wire::kMaxProcessId + 1, 'a'), std::string("a/b"),
                                std::string("a\nb"), std::string("a\0b", 3), std::string("\xc3\xa4")}) {
    const auto refused = spawn(shell(id, "true"));
    run_until([&] { return refused->spawned.has_value(); });
    EXPECT_EQ(refused->spawned->error().code, Errc::invalid);
    EXPECT_TRUE(refused->out->reset_reason);
  }
}

TEST_F(ProcessServiceTest, ASignalReachesTheWholeGroup) {
  // The inner one holds the output open: its end is seen as the end of the stream.
  const auto started = spawn(shell("p", "sleep 1000 & echo ready; wait"));
  await_output(*started, "ready");
  ASSERT_TRUE(service_->signal("p", SIGTERM).ok());
  run_until([&] { return started->ended.has_value(); });
  EXPECT_EQ((*started->ended)->signal, static_cast<std::uint32_t>(SIGTERM));
  EXPECT_TRUE(started->out->ended);
  EXPECT_TRUE(service_->signal("p", SIGTERM).ok()) << "one that has ended is no error";
}

TEST_F(ProcessServiceTest, ASignalThatComesBeforeTheStartIsKept) {
  const auto started = spawn(shell("p", "exec sleep 1000"));
  ASSERT_TRUE(service_->signal("p", SIGUSR1).ok());
  run_until([&] { return started->ended.has_value(); });
  EXPECT_EQ((*started->ended)->signal, static_cast<std::uint32_t>(SIGUSR1));
}

TEST_F(ProcessServiceTest, SignalNumbersAreChecked) {
  const auto started = spawn(shell("p", "cat"), true);
  for (const std::uint32_t bad : {0U, 65U, 1000U, 0xffffffffU})
    EXPECT_EQ(service_->signal("p", bad).error().code, Errc::invalid) << bad;
  EXPECT_EQ(service_->signal("nobody", SIGTERM).error().code, Errc::invalid);
  started->in->send_end();
  run_until([&] { return started->ended.has_value(); });
  EXPECT_EQ((*started->ended)->code, 0U);
}

TEST_F(ProcessServiceTest, EarlySignalsAreBounded) {
  auto request = shell("p", "true");
  request.after = wire::Spawn::After{"journal", wire::MutationNumber(1)};
  spawn(std::move(request));
  for (std::size_t i = 0; i < kMaxEarlySignals; ++i) ASSERT_TRUE(service_->signal("p", SIGCONT).ok());
  EXPECT_EQ(service_->signal("p", SIGCONT).error().code, Errc::limit);
}

TEST_F(ProcessServiceTest, ABackgroundChildDoesNotHoldTheAnswerForEver) {
  const auto started = spawn(shell("p", "sleep 1000 & echo $!; exit 3"));
  run_until([&] { return started->ended.has_value(); });
  EXPECT_EQ((*started->ended)->code, 3U);
  EXPECT_TRUE(started->out->ended && started->err->ended);
  const pid_t left = std::stoi(started->out->received);
  EXPECT_EQ(::kill(left, 0), 0) << "it lives on, as after a local shell";
  ::kill(left, SIGKILL);
}

TEST_F(ProcessServiceTest, WhatABackgroundChildWritesAfterTheExitIsHeard) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  const auto started = spawn(shell("p", "(read line < fifo; echo late) & echo $!; exit 3"));
  await_output(*started, "\n");
  // Nothing runs on the loop until both are gone, so no timer decides what is seen.
  await_death(static_cast<pid_t>((*started->spawned)->pid));
  const pid_t child = std::stoi(started->out->received);
  std::ofstream(folder_ / "fifo") << "go\n";
  await_death(child);
  run_until([&] { return started->ended.has_value(); });
  EXPECT_TRUE(started->out->received.ends_with("\nlate\n"));
  EXPECT_EQ((*started->ended)->code, 3U);
}

TEST_F(ProcessServiceTest, AHeldUpReaderIsNoQuietProcess) {
  auto slow = std::make_shared<Started>();
  slow->out = channel();
  slow->out->credit = 1;
  service_->spawn(SessionKey(1), shell("p", "echo 1234567"), {nullptr, slow->out, nullptr},
                  [](Result<wire::Spawn::Reply>) {});
  wait("p", slow);
  run_until([&] { return slow->out->received.size() == 1; });
  bool passed = false;  // more than the limit, by the same clock
  loop_.schedule(5 * kDrainLimit, [&] {
    passed = true;
    real_loop_.stop();
  });
  run_until([&] { return passed; });
  EXPECT_FALSE(slow->out->over());
  EXPECT_FALSE(slow->ended);
  slow->out->give(100);
  run_until([&] { return slow->ended.has_value(); });
  EXPECT_EQ(slow->out->received, "1234567\n");
}

TEST_F(ProcessServiceTest, ALostSessionHangsItsProcessesUp) {
  const auto mine = spawn(shell("mine", "sleep 1000 & echo $!; wait"));
  const auto others = spawn(shell("others", "cat; exit 5"), true, SessionKey(2));
  await_output(*mine, "\n");
  service_->session_over(SessionKey(1));
  run_until([&] { return mine->ended.has_value(); });
  EXPECT_EQ((*mine->ended)->signal, static_cast<std::uint32_t>(SIGHUP));
  await_death(std::stoi(mine->out->received));
  others->in->send_end();
  run_until([&] { return others->ended.has_value(); });
  EXPECT_EQ((*others->ended)->code, 5U);
}

TEST_F(ProcessServiceTest, WhatIgnoresTheHangUpIsKilledInTheEnd) {
  const auto stubborn = spawn(shell("p", "trap '' HUP; (trap '' HUP; while :; do sleep 1000; done) & echo $!; wait"));
  const auto stopped = spawn(shell("q", "echo ready; kill -STOP $$"));
  await_output(*stubborn, "\n");
  await_output(*stopped, "ready");
  service_->session_over(SessionKey(1));
  run_until([&] { return stubborn->ended && stopped->ended; });
  EXPECT_EQ((*stubborn->ended)->signal, static_cast<std::uint32_t>(SIGKILL));
  EXPECT_EQ((*stopped->ended)->signal, static_cast<std::uint32_t>(SIGHUP));
  await_death(std::stoi(stubborn->out->received));
  EXPECT_EQ(service_->running(), 0U);
}

TEST_F(ProcessServiceTest, WhatOutlivesAHungUpLeaderIsKilledToo) {
  const auto started = spawn(shell("p", "(trap '' HUP; echo ready; while :; do sleep 1000; done) & echo $!; wait"));
  await_output(*started, "ready");
  run_until([&] { return std::count(started->out->received.begin(), started->out->received.end(), '\n') == 2; });
  service_->session_over(SessionKey(1));
  run_until([&] { return started->ended.has_value(); });
  EXPECT_EQ((*started->ended)->signal, static_cast<std::uint32_t>(SIGHUP));
  std::string said = started->out->received;
  said.erase(said.find("ready\n"), 6);
  await_death(std::stoi(said));
}

TEST_F(ProcessServiceTest, ALostSessionIsNoEndOfInput) {
  const auto started = spawn(shell("p", "trap '' HUP; echo ready; cat; echo took it for all > took"), true);
  await_output(*started, "ready");
  started->in->send("half of it");
  started->in->send_reset(make_error(Errc::disconnected, "", "session closed"));
  service_->session_over(SessionKey(1));
  run_until([&] { return started->ended.has_value(); });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "took"));
}

TEST_F(ProcessServiceTest, ASessionThatIsLostDuringTheStartLeavesNothing) {
  const auto started = spawn(shell("p", "sleep 1000"));
  service_->session_over(SessionKey(1));
  run_until([&] { return started->ended.has_value(); });
  EXPECT_EQ((*started->ended)->signal, static_cast<std::uint32_t>(SIGHUP));
}

TEST_F(ProcessServiceTest, ASpawnWaitsForItsMutation) {
  auto request = shell("p", "echo started");
  request.after = wire::Spawn::After{"journal", wire::MutationNumber(1)};
  const auto started = spawn(std::move(request));
  drain();
  EXPECT_FALSE(started->spawned);
  bool begun = false;
  journals_.enter("journal", wire::MutationNumber(1), false, [&](Result<MutationTurn>) {
    begun = true;
    real_loop_.stop();
  });
  run_until([&] { return begun; });
  drain();
  EXPECT_FALSE(started->spawned) << "begun is not finished";
  journals_.finish_unexecuted("journal", wire::MutationNumber(1), {});
  run_until([&] { return started->ended.has_value(); });
  EXPECT_EQ(started->out->received, "started\n");
}

TEST_F(ProcessServiceTest, ASpawnThatWaitsCanBeGivenUpOrLost) {
  for (const bool lost : {false, true}) {
    auto request = shell("p", "echo started > started");
    request.after = wire::Spawn::After{"journal", wire::MutationNumber(1)};
    const auto started = spawn(std::move(request));
    if (lost)
      service_->session_over(SessionKey(1));
    else
      service_->cancel_spawn("p");
    run_until([&] { return started->spawned && started->ended; });
    EXPECT_EQ(started->spawned->error().code, lost ? Errc::disconnected : Errc::cancelled);
    EXPECT_TRUE(started->out->reset_reason);
    EXPECT_EQ(service_->running(), 0U);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "started"));
}

TEST_F(ProcessServiceTest, ProcessesAreBounded) {
  std::vector<std::shared_ptr<Started>> all;
  for (std::size_t i = 0; i <= kMaxProcesses; ++i) {
    auto request = shell("p" + std::to_string(i), "true");
    request.after = wire::Spawn::After{"journal", wire::MutationNumber(1)};
    all.push_back(spawn(std::move(request)));
  }
  run_until([&] { return all.back()->spawned.has_value(); });
  EXPECT_EQ(all.back()->spawned->error().code, Errc::limit);
  EXPECT_FALSE(all[kMaxProcesses - 1]->spawned);
  EXPECT_EQ(service_->running(), kMaxProcesses);
}

TEST_F(ProcessServiceTest, ResultsAreForgottenInTime) {
  bool passed = false;
  fakes::FastLoop faster(real_loop_, 20000);
  service_ = std::make_unique<ProcessService>(faster, *root_, journals_, ProcessServiceOptions{});
  run(shell("p", "exit 9"));
  faster.schedule(kResultLife + std::chrono::seconds(1), [&] {
    passed = true;
    real_loop_.stop();
  });
  run_until([&] { return passed; });
  run(shell("q", "true"));
  auto late = std::make_shared<Started>();
  wait("p", late);
  run_until([&] { return late->ended.has_value(); });
  EXPECT_FALSE(late->ended->ok());
  service_.reset();
}

TEST_F(ProcessServiceTest, ShuttingDownLeavesNothing) {
  const auto polite = spawn(shell("p", "sleep 1000"));
  const auto stubborn =
      spawn(shell("q", "trap '' HUP; echo ready; while :; do sleep 1000; done"), false, SessionKey(2));
  await_output(*stubborn, "ready");
  bool done = false;
  service_->shut_down(std::chrono::seconds(5), [&] {
    done = true;
    real_loop_.stop();
  });
  const auto refused = spawn(shell("r", "true"));
  run_until([&] { return done && refused->spawned; });
  EXPECT_EQ(refused->spawned->error().code, Errc::disconnected);
  EXPECT_EQ((*polite->ended)->signal, static_cast<std::uint32_t>(SIGHUP));
  EXPECT_EQ((*stubborn->ended)->signal, static_cast<std::uint32_t>(SIGKILL));
}

TEST_F(ProcessServiceTest, DestroyingItKillsWhatRuns) {
  const auto started = spawn(shell("p", "trap '' HUP TERM; echo ready; while :; do sleep 1000; done"));
  await_output(*started, "ready");
  const auto pid = static_cast<pid_t>((*started->spawned)->pid);
  const auto starting = spawn(shell("q", "echo $$ > pid; sleep 1000"));
  service_.reset();
  await_death(pid);
  EXPECT_TRUE(started->out->over());
  drain();
}

TEST_F(ProcessServiceTest, OrphansAreReapedWhereTheAgentIsInit) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // as good as PID 1 for this
  ProcessServiceOptions options;
  options.reap_orphans = true;
  restart(options);
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  const auto started = run(shell("p", "(exec >&- 2>&-; read line < fifo) & echo $!"));
  const pid_t orphan = std::stoi(started->out->received);
  ASSERT_EQ(::kill(orphan, 0), 0);
  std::ofstream(folder_ / "fifo") << "go\n";
  await_death(orphan);
  service_->reap_orphans();
  EXPECT_EQ(::kill(orphan, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace sandbar::agent
