// SPDX-License-Identifier: Apache-2.0
// When requests run: pipelined ids, journals, closes, releases, cancels, the end of a session.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>

#include "unit/agent/files_fixture.h"

namespace sandbar::agent {
namespace {

/// Holds all workers of a service, so that what is sent meanwhile stays queued.
class HeldWorkers {
 public:
  explicit HeldWorkers(Service& service, int workers = 4) {
    for (int i = 0; i < workers; ++i)
      service.pool().submit([state = state_] {
        std::unique_lock lock(state->mutex);
        ++state->held;
        state->changed.notify_all();
        state->changed.wait(lock, [&] { return state->free; });
      });
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->held == workers; });
  }
  ~HeldWorkers() { release(); }
  void release() {
    std::lock_guard lock(state_->mutex);
    state_->free = true;
    state_->changed.notify_all();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int held = 0;
    bool free = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

Errc code_of(const Result<FileAnswer>& answer) { return answer ? Errc::internal : answer.error().code; }
int errno_of(const Result<FileAnswer>& answer) { return answer ? 0 : answer.error().os_errno; }

TEST_F(FilesTest, IdsCanBeNamedBeforeTheyAreBound) {
  const wire::ObjectId root(1), dir(2), file(3);
  const wire::HandleId handle(1);
  std::vector<std::shared_ptr<Service::Pending>> calls;
  calls.push_back(service.send(wire::Attach{root, "/"}));
  calls.push_back(service.send(wire::MakeDirectory{root, "dir", 0755, dir}, mutation(1)));
  calls.push_back(service.send(wire::Create{dir, "file", 0644, O_RDWR, file, handle}, mutation(2)));
  calls.push_back(service.send(wire::Write{handle, 0}, mutation(3), "data"));
  calls.push_back(service.send(wire::Close{handle}));
  for (const auto& call : calls) EXPECT_TRUE(service.wait(call));
  EXPECT_EQ("data", tree.read("dir/file"));
}

TEST_F(FilesTest, WhatWaitsForAnIdFailsWithItsError) {
  const wire::ObjectId root = service.attach();
  const wire::ObjectId missing(50), below(51), file(52);
  const wire::HandleId handle(50);
  const auto lookup = service.send(wire::Lookup{root, "missing", missing});
  const auto next = service.send(wire::Lookup{missing, "x", below});
  const auto create = service.send(wire::Create{below, "y", 0644, O_RDWR, file, handle});
  const auto write = service.send(wire::Write{handle, 0}, {}, "data");
  const auto close = service.send(wire::Close{handle});
  for (const auto& call : {lookup, next, create, write, close}) EXPECT_EQ(ENOENT, errno_of(service.wait(call)));
  // Also one that comes after the failure.
  EXPECT_EQ(ENOENT, service.error_of(wire::GetAttributes{missing, {}}));
  EXPECT_EQ(EBADF, service.error_of(wire::Read{handle, 0, 1})) << "it was closed";
}

TEST_F(FilesTest, MutationsRunInTheOrderOfTheirNumbers) {
  const wire::ObjectId root = service.attach();
  const auto [object, handle] = service.create(root, "file", 0644, O_RDWR | O_APPEND);
  std::vector<std::uint64_t> numbers(200);
  for (std::uint64_t i = 0; i < numbers.size(); ++i) numbers[i] = i + 1;
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937(7));
  std::vector<std::shared_ptr<Service::Pending>> calls;
  std::string expected;
  for (std::uint64_t i = 1; i <= numbers.size(); ++i) expected += std::to_string(i) + "\n";
  for (const std::uint64_t number : numbers)
    calls.push_back(service.send(wire::Write{handle, 0, true}, mutation(number), std::to_string(number) + "\n"));
  for (const auto& call : calls) EXPECT_TRUE(service.wait(call));
  EXPECT_EQ(expected, tree.read("file"));
  EXPECT_EQ(200U, service.journals.last_finished("journal").value);
}

// A mutation may even come before the one that binds what it names.
TEST_F(FilesTest, ShuffledMutationsFindWhatEarlierOnesBind) {
  const wire::ObjectId root = service.attach();
  const auto unlink = service.send(wire::Rename{wire::ObjectId(70), "file", root, "moved", 0}, mutation(3));
  const auto create = service.send(
      wire::Create{wire::ObjectId(70), "file", 0644, O_RDWR, wire::ObjectId(71), wire::HandleId(71)}, mutation(2));
  const auto read = service.send(wire::GetAttributes{wire::ObjectId(71), {}});
  const auto make = service.send(wire::MakeDirectory{root, "dir", 0755, wire::ObjectId(70)}, mutation(1));
  for (const auto& call : {unlink, create, read, make}) {
    const Result<FileAnswer> answer = service.wait(call);
    EXPECT_TRUE(answer) << answer.error().message();
  }
  EXPECT_TRUE(tree.exists("moved"));
}

TEST_F(FilesTest, AGapWaitsAndAFailureDoesNot) {
  const wire::ObjectId root = service.attach();
  const auto third = service.send(wire::MakeDirectory{root, "c", 0755, wire::ObjectId(83)}, mutation(3));
  const auto first = service.send(wire::RemoveDirectory{root, "missing"}, mutation(1));
  EXPECT_EQ(ENOENT, errno_of(service.wait(first)));
  EXPECT_FALSE(third->answer);
  const auto second = service.send(wire::MakeDirectory{root, "b", 0755, wire::ObjectId(82)}, mutation(2));
  EXPECT_TRUE(service.wait(third));
  EXPECT_TRUE(second->answer && *second->answer);
}

TEST_F(FilesTest, ReadsWithAfterWait) {
  const wire::ObjectId root = service.attach();
  wire::RequestContext after;
  after.after = wire::MutationNumber(2);
  const auto lookup = service.send(wire::Lookup{root, "b", wire::ObjectId(90)}, after);
  EXPECT_TRUE(service.ask(wire::MakeDirectory{root, "a", 0755, wire::ObjectId(81)}, mutation(1)));
  EXPECT_FALSE(lookup->answer);
  EXPECT_TRUE(service.ask(wire::MakeDirectory{root, "b", 0755, wire::ObjectId(82)}, mutation(2)));
  EXPECT_TRUE(service.wait(lookup));
  after.after = wire::MutationNumber(1);
  EXPECT_TRUE(service.ask(wire::GetAttributes{root, {}}, after)) << "done long ago";
}

TEST_F(FilesTest, OrdersThatCannotBe) {
  const wire::ObjectId root = service.attach();
  wire::RequestContext impossible = mutation(1);
  impossible.after = wire::MutationNumber(1);
  EXPECT_EQ(Errc::protocol, code_of(service.ask(wire::RemoveDirectory{root, "a"}, impossible)));
  EXPECT_TRUE(service.ask(wire::MakeDirectory{root, "a", 0755, wire::ObjectId(81)}, mutation(2)))
      << "the number is used up";
  Service unnamed(tree.root(), {}, "");
  const wire::ObjectId other = unnamed.attach();
  EXPECT_EQ(Errc::protocol, code_of(unnamed.ask(wire::RemoveDirectory{other, "a"}, mutation(1))));
}

TEST_F(FilesTest, QueuedRequestsCanBeCancelled) {
  const wire::ObjectId root = service.attach();
  const auto second = service.send(wire::MakeDirectory{root, "b", 0755, wire::ObjectId(82)}, mutation(2));
  const auto waits = service.send(wire::MakeDirectory{wire::ObjectId(82), "c", 0755, wire::ObjectId(83)}, mutation(3));
  service.core->cancel(second->id);
  EXPECT_EQ(Errc::cancelled, code_of(service.wait(second)));
  service.core->cancel(second->id);
  service.core->cancel(FileCallId(12345));
  // The number is used up, and what needed its object fails.
  EXPECT_TRUE(service.ask(wire::MakeDirectory{root, "a", 0755, wire::ObjectId(81)}, mutation(1)));
  EXPECT_EQ(Errc::cancelled, code_of(service.wait(waits)));
  EXPECT_TRUE(service.ask(wire::MakeDirectory{root, "d", 0755, wire::ObjectId(84)}, mutation(4)));
  EXPECT_FALSE(tree.exists("b"));
}

TEST_F(FilesTest, RunningRequestsFinishInSpiteOfACancel) {
  const wire::ObjectId root = service.attach();
  HeldWorkers held(service);
  const auto call = service.send(wire::MakeDirectory{root, "a", 0755, wire::ObjectId(81)}, mutation(1));
  ASSERT_TRUE(service.loop.run_until([&] { return service.journals.last_begun("journal").value == 1; }));
  // It is with the workers now.
  bool turned = false;
  service.loop.post([&] { turned = true; });
  ASSERT_TRUE(service.loop.run_until([&] { return turned; }));
  service.core->cancel(call->id);
  held.release();
  EXPECT_TRUE(service.wait(call));
  EXPECT_TRUE(tree.exists("a"));
}

TEST_F(FilesTest, CloseWaitsForTheRequestsOfItsHandle) {
  const wire::ObjectId root = service.attach();
  const auto [object, handle] = service.create(root, "file");
  const auto write = service.send(wire::Write{handle, 0}, mutation(2), "data");
  const auto close = service.send(wire::Close{handle});
  EXPECT_EQ(EBADF, service.error_of(wire::Read{handle, 0, 1})) << "it came after the close";
  EXPECT_FALSE(close->answer);
  service.must(wire::GetAttributes{object, {}});
  EXPECT_TRUE(service.ask(wire::MakeDirectory{root, "a", 0755, wire::ObjectId(81)}, mutation(1)));
  EXPECT_TRUE(service.wait(write));
  EXPECT_TRUE(service.wait(close));
  EXPECT_EQ("data", tree.read("file"));
  EXPECT_EQ(0U, service.core->handles());
}

TEST_F(FilesTest, ReleaseWaitsForTheRequestsOfItsObject) {
  const wire::ObjectId root = service.attach();
  const auto make = service.send(wire::MakeDirectory{root, "b", 0755, wire::ObjectId(82)}, mutation(2));
  service.must(wire::Release{{root}});
  EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{root, {}}));
  const wire::ObjectId other = wire::ObjectId(99);
  EXPECT_TRUE(service.ask(wire::Attach{other, "/"}));
  EXPECT_TRUE(service.ask(wire::MakeDirectory{other, "a", 0755, wire::ObjectId(81)}, mutation(1)));
  EXPECT_TRUE(service.wait(make));
  EXPECT_EQ(3U, service.core->objects());
}

TEST_F(FilesTest, AReleaseBeforeTheBindingTakesEffectBehindIt) {
  const wire::ObjectId root = service.attach();
  HeldWorkers held(service);
  const auto make = service.send(wire::MakeDirectory{root, "a", 0755, wire::ObjectId(81)});
  const auto release = service.send(wire::Release{{wire::ObjectId(81)}});
  held.release();
  EXPECT_TRUE(service.wait(make));
  EXPECT_TRUE(service.wait(release));
  EXPECT_EQ(1U, service.core->objects());
}

TEST_F(FilesTest, TheEndOfASessionFreesItsWaitingNumbers) {
  const wire::ObjectId root = service.attach();
  auto waiting = service.send(wire::MakeDirectory{root, "b", 0755, wire::ObjectId(82)}, mutation(2));
  auto other = std::make_shared<FileCore>(service.loop, service.root(), service.pool(), service.journals, "journal");
  service.core = std::move(other);
  EXPECT_EQ(Errc::cancelled, code_of(service.wait(waiting)));
  // The same client again: it is told of 0 in the hello, and starts there.
  EXPECT_EQ(0U, service.journals.last_begun("journal").value);
  const wire::ObjectId again = service.attach();
  EXPECT_TRUE(service.ask(wire::MakeDirectory{again, "a", 0755, wire::ObjectId(81)}, mutation(1)));
  EXPECT_TRUE(service.ask(wire::MakeDirectory{again, "b", 0755, wire::ObjectId(82)}, mutation(2)));
}

TEST_F(FilesTest, TheEndOfASessionLetsRunningRequestsFinish) {
  const wire::ObjectId root = service.attach();
  {
    HeldWorkers held(service);
    service.send(wire::MakeDirectory{root, "a", 0755, wire::ObjectId(81)}, mutation(1));
    ASSERT_TRUE(service.loop.run_until([&] { return service.journals.last_begun("journal").value == 1; }));
    bool turned = false;
    service.loop.post([&] { turned = true; });
    ASSERT_TRUE(service.loop.run_until([&] { return turned; }));
    service.core =
        std::make_shared<FileCore>(service.loop, service.root(), service.pool(), service.journals, "journal");
    EXPECT_EQ(1U, service.journals.last_begun("journal").value);
    EXPECT_EQ(0U, service.journals.last_finished("journal").value);
  }
  const wire::ObjectId again = service.attach();
  EXPECT_TRUE(service.ask(wire::MakeDirectory{again, "b", 0755, wire::ObjectId(82)}, mutation(2)));
  EXPECT_TRUE(tree.exists("a"));
}

TEST_F(FilesTest, LongChainsOfWaitingRequests) {
  service.attach();
  constexpr std::uint64_t kLength = 3000;
  std::vector<std::shared_ptr<Service::Pending>> calls;
  // All hang on the first, which fails.
  for (std::uint64_t i = 0; i < kLength; ++i)
    calls.push_back(service.send(
        wire::Lookup{i == 0 ? wire::ObjectId(1) : wire::ObjectId(999 + i), "x", wire::ObjectId(1000 + i)}));
  for (const auto& call : calls) EXPECT_EQ(ENOENT, errno_of(service.wait(call)));
}

TEST(FileCore, TakesABoundedNumberOfRequests) {
  TempTree tree;
  Service service(tree.root());
  const wire::ObjectId root = service.attach();
  wire::RequestContext never;
  never.after = wire::MutationNumber(1);
  std::vector<std::shared_ptr<Service::Pending>> calls;
  for (std::size_t i = 0; i < FileCore::kMaxCalls; ++i)
    calls.push_back(service.send(wire::GetAttributes{root, {}}, never));
  EXPECT_EQ(Errc::limit, code_of(service.ask(wire::GetAttributes{root, {}})));
  // A mutation is refused as well, but its number is used up: the others go on.
  EXPECT_EQ(Errc::limit, code_of(service.ask(wire::RemoveDirectory{root, "a"}, mutation(1))));
  for (const auto& call : calls) EXPECT_TRUE(service.wait(call));
}

}  // namespace
}  // namespace sandbar::agent
