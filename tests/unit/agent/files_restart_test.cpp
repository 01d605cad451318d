// SPDX-License-Identifier: Apache-2.0
// Mutations whose numbers come again after the agent has ended: in order, or killed at any moment.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <random>

#include "agent/state.h"
#include "unit/agent/answers.h"

namespace sandbar::agent {
namespace {

class RestartTest : public testing::Test {
 protected:
  RestartTest() { start(); }
  void stop() {
    service.reset();
    state.reset();
  }
  void start() {
    stop();
    auto opened = State::open(tree.outside("state"));
    ASSERT_TRUE(opened) << opened.error().message();
    state.emplace(std::move(opened).value());
    service.emplace(tree.root(), RootOptions{}, "journal", state->journals());
    root = service->attach();
  }
  /// The agent is killed after this mutation has begun.
  void begin_and_die(std::uint64_t number) {
    ASSERT_TRUE(state->journals()->begin("journal", wire::MutationNumber(number)));
    start();
  }
  TempTree tree;
  std::optional<State> state;
  std::optional<Service> service;
  wire::ObjectId root;
};

TEST_F(RestartTest, ARepeatIsAnsweredFromTheRecord) {
  const auto make = [&](std::uint64_t id) {
    return text_of(service->ask(wire::MakeDirectory{root, "d", 0755, wire::ObjectId(id)}, mutation(1)));
  };
  const auto fail = [&] { return text_of(service->ask(wire::Unlink{root, "missing"}, mutation(2))); };
  const std::string made = make(80);
  const std::string failed = fail();
  const std::string stale = text_of(service->ask(wire::Unlink{wire::ObjectId(999), "x"}, mutation(3)));
  start();
  EXPECT_EQ(made, make(81));
  EXPECT_EQ(0, service->error_of(wire::GetAttributes{wire::ObjectId(81), {}}));
  EXPECT_EQ(failed, fail());
  EXPECT_EQ(stale, text_of(service->ask(wire::Unlink{root, "x"}, mutation(3)))) << "it was never executed";
  EXPECT_TRUE(service->ask(wire::RemoveDirectory{root, "d"}, mutation(4)));
}

TEST_F(RestartTest, ChangesAreCountedAnew) {
  for (std::uint64_t n = 1; n <= 5; ++n)
    EXPECT_TRUE(service->ask(wire::MakeDirectory{root, std::to_string(n), 0755, service->new_object()}, mutation(n)));
  start();
  const auto answer = service->ask(wire::MakeDirectory{root, "5", 0755, service->new_object()}, mutation(5));
  ASSERT_TRUE(answer);
  EXPECT_EQ(service->root().change(), answer->reply.change);
}

TEST_F(RestartTest, WhatDoesNoHarmIsExecutedAgain) {
  tree.write("file", "0123456789");
  const auto file = [&] { return service->lookup(root, "file"); };
  const auto handle = [&] { return service->open(file(), O_RDWR); };
  std::uint64_t n = 0;
  begin_and_die(++n);
  EXPECT_TRUE(service->ask(wire::Write{handle(), 2}, mutation(n), "xx"));
  begin_and_die(++n);
  wire::SetAttributes set;
  set.object = file();
  set.size = 5;
  set.mode = 0600;
  set.modified = wire::Time{1000, 5};
  EXPECT_TRUE(service->ask(set, mutation(n)));
  EXPECT_EQ("01xx4", tree.read("file"));
  EXPECT_EQ(1000, tree.stat("file").st_mtim.tv_sec);
  begin_and_die(++n);
  EXPECT_TRUE(service->ask(wire::Allocate{handle(), 0, 0, 6}, mutation(n)));
  EXPECT_EQ(6, tree.stat("file").st_size);
  begin_and_die(++n);
  EXPECT_TRUE(service->ask(wire::Open{file(), wire::HandleId(77), O_RDWR | O_TRUNC}, mutation(n)));
  EXPECT_EQ("", tree.read("file"));
  EXPECT_EQ("", service->read(wire::HandleId(77)));
  begin_and_die(++n);
  EXPECT_NE(Errc::unknown, code_of(service->ask(wire::SetXattr{file(), "user.x", 0}, mutation(n), "v")));
}

TEST_F(RestartTest, OfAllElseTheResultIsUnknown) {
  tree.write("file", "0123456789");
  tree.write("from", "from");
  std::filesystem::create_directory(tree.path("empty"));
  const auto file = [&] { return service->lookup(root, "file"); };
  const auto handle = [&] { return service->open(file(), O_RDWR); };
  wire::SetAttributes now;
  now.modified_now = true;
  std::vector<std::function<wire::RequestBody()>> requests{
      [&] {
        return wire::Write{handle(), 0, true};
      },
      [&] {
        now.object = file();
        return now;
      },
      [&] {
        return wire::Allocate{handle(), FALLOC_FL_COLLAPSE_RANGE, 0, 4096};
      },
      [&] {
        return wire::Allocate{handle(), FALLOC_FL_INSERT_RANGE, 0, 4096};
      },
      [&] {
        return wire::SetXattr{file(), "user.x", 1};
      },
      [&] {
        return wire::RemoveXattr{file(), "user.x"};
      },
      [&] {
        return wire::MakeDirectory{root, "new", 0755, service->new_object()};
      },
      [&] {
        return wire::MakeNode{root, "new", S_IFIFO | 0644, 0, service->new_object()};
      },
      [&] {
        return wire::MakeSymlink{root, "new", "x", service->new_object()};
      },
      [&] {
        return wire::MakeLink{file(), root, "new"};
      },
      [&] {
        return wire::Unlink{root, "from"};
      },
      [&] {
        return wire::RemoveDirectory{root, "empty"};
      },
      [&] {
        return wire::Rename{root, "from", root, "new", 0};
      },
      [&] { return wire::Create{root, "new", 0644, O_RDWR, service->new_object(), service->new_handle()}; },
      [&] {
        return wire::CopyRange{service->open(service->lookup(root, "from")), 0, handle(), 0, 4};
      },
  };
  std::uint64_t n = 0;
  for (const auto& request : requests) {
    begin_and_die(++n);
    const auto answer = service->ask(request(), mutation(n), "x");
    EXPECT_EQ(Errc::unknown, code_of(answer)) << n;
    EXPECT_EQ("its result is not known: the agent was killed while it was done", detail_of(answer));
  }
  EXPECT_EQ("0123456789", tree.read("file"));
  EXPECT_FALSE(tree.exists("new"));
  EXPECT_TRUE(tree.exists("from") && tree.exists("empty"));
  // The journal goes on.
  EXPECT_TRUE(service->ask(wire::Unlink{root, "from"}, mutation(++n)));
}

TEST_F(RestartTest, WithoutRoomForTheRecordNothingIsDone) {
  EXPECT_TRUE(service->ask(wire::MakeDirectory{root, "a", 0755, service->new_object()}, mutation(1)));
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{state->journals()->file_size(), before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const auto refused = service->ask(wire::MakeDirectory{root, "b", 0755, service->new_object()}, mutation(2));
  const auto again = service->ask(wire::MakeDirectory{root, "b", 0755, service->new_object()}, mutation(2));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(refused);
  EXPECT_EQ(EFBIG, refused.error().os_errno);
  EXPECT_EQ(text_of(refused), text_of(again));
  EXPECT_FALSE(tree.exists("b"));
  EXPECT_TRUE(service->ask(wire::MakeDirectory{root, "b", 0755, service->new_object()}, mutation(3)));
}

// --- Killed at any moment ---

constexpr std::uint64_t kMutations = 400;

/// The client's n-th mutation, whatever session it is sent in.
wire::RequestBody nth(std::uint64_t n, wire::ObjectId root, wire::HandleId log, base::Bytes& body) {
  const std::string last = std::to_string(n - 1);
  switch (n % 5) {
    case 0:
      return wire::MakeDirectory{root, "d" + std::to_string(n), 0755, wire::ObjectId(1000 + n)};
    case 1:  // of the directory before, or of nothing
      return wire::Rename{root, "d" + last, root, "moved" + last, 0};
    default:
      body = std::to_string(n) + "\n";
      return wire::Write{log, 0, true};
  }
}

/// An agent with its client, which sends everything from the start and writes a line "NUMBER ANSWER" for each answer.
[[noreturn]] void run_agent(const TempTree& tree, int out) {
  auto state = State::open(tree.outside("state"));
  if (!state) ::_exit(3);
  Service service(tree.root(), {}, "journal", state->journals());
  const wire::ObjectId root = service.attach();
  const wire::HandleId log = service.open(service.lookup(root, "log"), O_RDWR);
  std::uint64_t answered = 0;
  for (std::uint64_t n = 1; n <= kMutations; ++n) {
    base::Bytes body;
    wire::RequestBody request = nth(n, root, log, body);
    service.core->submit({mutation(n), std::move(request)}, std::move(body), [&, n](Result<FileAnswer> answer) {
      ++answered;
      const std::string line = std::to_string(n) + " " + text_of(answer) + "\n";
      if (::write(out, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(4);
    });
  }
  const bool done = service.loop.run_until([&] { return answered == kMutations; });
  ::_exit(done ? 0 : 5);
}

/// Starts it and reads answers until there were `most`; then it is killed. Returns its wait status.
int run_until_killed(const TempTree& tree, std::size_t most, std::map<std::uint64_t, std::string>& answers) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t pid = ::fork();
  if (pid == 0) run_agent(tree, ends[1]);
  ::close(ends[1]);
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t got = ::read(ends[0], piece, sizeof piece);
    if (got <= 0) break;
    text.append(piece, static_cast<std::size_t>(got));
    if (static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) >= most) ::kill(pid, SIGKILL);
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const std::size_t space = line.find(' ');
    const std::uint64_t n = std::stoull(line.substr(0, space));
    const auto [known, first] = answers.emplace(n, line.substr(space + 1));
    EXPECT_EQ(known->second, line.substr(space + 1)) << "mutation " << n << " was answered otherwise before";
  }
  return status;
}

TEST(KilledAgent, AnswersWhatItAnsweredAndDoesNothingTwice) {
  std::mt19937 random(20260730);
  TempTree tree;
  tree.write("log", "");
  std::map<std::uint64_t, std::string> answers;
  std::size_t kills = 0;
  for (int round = 0; round < 25; ++round)
    kills += WIFSIGNALED(run_until_killed(tree, 1 + random() % kMutations, answers)) ? 1 : 0;
  EXPECT_GT(kills, 10U);
  const int status = run_until_killed(tree, kMutations + 1, answers);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_EQ(kMutations, answers.size());

  std::map<std::uint64_t, int> appended;
  std::istringstream log(tree.read("log"));
  for (std::uint64_t n = 0; log >> n;) ++appended[n];
  std::size_t unknown = 0;
  for (const auto& [n, answer] : answers) {
    const bool is_unknown = answer.find("\"unknown\"") != std::string::npos;
    unknown += is_unknown ? 1 : 0;
    if (n % 5 <= 1) continue;
    EXPECT_LE(appended[n], 1) << n;
    if (is_unknown) continue;
    EXPECT_EQ(1, appended[n]) << n << ": " << answer;
  }
  EXPECT_LE(unknown, kills) << "at most the one that was being executed";
  for (std::uint64_t n = 5; n < kMutations; n += 5) {
    const bool moved = answers[n + 1].find("\"is\":\"empty\"") != std::string::npos;
    EXPECT_TRUE(!moved || tree.exists("moved" + std::to_string(n))) << n;
  }
}

}  // namespace
}  // namespace sandbar::agent
