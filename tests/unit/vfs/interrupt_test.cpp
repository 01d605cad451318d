// SPDX-License-Identifier: Apache-2.0
// Interrupts, time limits, lost connections, and the file system's own end.
#include "unit/vfs/mount.h"

namespace sandbar::vfs {
namespace {

using Hold = fakes::FakeRemote::Hold;

class Interrupts : public Mount {
 protected:
  void SetUp() override {
    remote.tree.put_file("/f", "abc");
    remote.tree.put_directory("/d");
    remote.tree.put_file("/d/g", "");
    open();
    node = find("/f").node;
  }
  /// Interrupts the operation while its request waits at the agent, or while its answer is on the way, and lets
  /// everything go. Nothing may be left behind.
  template <class T>
  void expect_given_up(Pending<T> pending) {
    loop.drain();
    fs->interrupt(pending.id, true);
    EXPECT_FALSE(pending.ready());  // not inside interrupt()
    loop.drain();
    EXPECT_TRUE(pending.failed_with(Errc::cancelled));
    EXPECT_EQ(fs->counts().operations, 0U);
    remote.hold = Hold::none;
    remote.let_all_go();
    loop.drain();
    fs->interrupt(pending.id, true);  // unknown by now
    loop.drain();
  }
  void expect_nothing_left() {
    loop.drain();
    EXPECT_EQ(remote.bound_objects(), fs->counts().nodes);
    EXPECT_EQ(remote.bound_handles(), fs->counts().files);
    expect_ids_right();
  }

  NodeId node;
};

TEST_F(Interrupts, AnInterruptMustNotMakeAStatFail) {
  remote.hold = Hold::answers;
  auto statted = start_stat(node);
  auto looked = start_lookup(kRootNode, "f");
  fs->interrupt(statted.id, false);
  fs->interrupt(looked.id, false);
  loop.drain();
  EXPECT_FALSE(statted.ready());
  remote.hold = Hold::none;
  remote.let_all_go();
  EXPECT_EQ(finish(statted).os_errno(), 0);
  EXPECT_EQ(finish(looked).os_errno(), 0);
}

TEST_F(Interrupts, WhatWasBoundIsReleased) {
  for (const Hold hold : {Hold::answers, Hold::requests}) {
    const auto made = hold == Hold::answers ? "a" : "b";
    remote.hold = hold;
    expect_given_up(start_lookup(kRootNode, "d"));
    EXPECT_EQ(fs->counts().nodes, 2U);
    expect_nothing_left();
    remote.hold = hold;
    expect_given_up(start_create(kRootNode, made, O_RDWR));
    EXPECT_NE(remote.tree.at(std::string("/") + made), nullptr);
    EXPECT_EQ(fs->counts().nodes, 2U);
    EXPECT_EQ(fs->counts().files, 0U);
    expect_nothing_left();
    remote.hold = hold;
    expect_given_up(start_open(node, O_RDONLY));
    expect_nothing_left();
    remote.hold = hold;
    expect_given_up(start<Entry>([&](auto done) {
      return fs->make_directory(caller, kRootNode, std::string(made) + "d", 0755, std::move(done));
    }));
    expect_nothing_left();
  }
}

TEST_F(Interrupts, AListingsEntriesAreReleased) {
  for (const Hold hold : {Hold::answers, Hold::requests})
    for (const bool attributes : {false, true}) {
      const FileId file = open_directory(kRootNode);
      remote.hold = hold;
      FakeSink sink;
      expect_given_up(start_list(file, 0, attributes, sink));
      EXPECT_TRUE(sink.taken.empty());
      expect_nothing_left();
      release(file);
      expect_nothing_left();
    }
}

TEST_F(Interrupts, BeforeTheRequestIsSent) {
  const FileId file = open_directory(kRootNode);
  remote.take_round_trips();
  FakeSink sink;
  auto pending = start_list(file, 0, true, sink);
  fs->interrupt(pending.id, true);  // the listing is posted, not running yet
  loop.drain();
  ASSERT_TRUE(pending.ready());
  for (const Listed& listed : sink.taken)
    if (listed.entry) fs->forget(listed.entry->node, 1);
  release(file);
  expect_nothing_left();
}

TEST_F(Interrupts, OthersAreCancelledAtTheAgent) {
  const FileId file = open_id(node, O_RDWR);
  remote.hold = Hold::requests;
  expect_given_up(start_stat(node));
  remote.hold = Hold::requests;
  expect_given_up(start_read(file, 0, 3));
  remote.hold = Hold::requests;
  expect_given_up(start_write(file, 0, "x"));
  release(file);
  expect_nothing_left();
}

TEST_F(Interrupts, AFileReleasedBehindAnInterruptIsClosedBehindTheAnswer) {
  const FileId file = open_directory(kRootNode);
  remote.hold = Hold::requests;
  FakeSink sink;
  auto pending = start_list(file, 0, true, sink);
  loop.drain();
  fs->interrupt(pending.id, true);
  loop.drain();
  EXPECT_TRUE(pending.ready());
  fs->release(file, std::nullopt);
  loop.drain();
  EXPECT_EQ(remote.counts["close"], 0U);
  remote.hold = Hold::none;
  remote.let_all_go();
  loop.drain();
  EXPECT_EQ(remote.counts["close"], 1U);
  EXPECT_EQ(fs->counts().files, 0U);
  expect_nothing_left();
}

TEST_F(Interrupts, AfterTheAnswerIsTooLate) {
  auto pending = lookup(kRootNode, "d");
  fs->interrupt(pending.id, true);
  loop.drain();
  EXPECT_EQ(stat(pending.result()->node).os_errno(), 0);
}

TEST_F(Interrupts, TimeLimits) {
  const FileId file = open_id(node, O_RDWR);
  remote.hold = Hold::requests;
  auto looked = start_lookup(kRootNode, "d");
  auto created = start_create(kRootNode, "n", O_RDWR);
  auto statted = start_stat(node);
  auto read = start_read(file, 0, 1);
  auto opened = start_open(node, O_RDONLY);
  loop.advance(std::chrono::seconds(60) - std::chrono::nanoseconds(1));
  EXPECT_FALSE(looked.ready() || created.ready() || statted.ready() || read.ready() || opened.ready());
  loop.advance(std::chrono::nanoseconds(1));
  EXPECT_TRUE(looked.failed_with(Errc::timeout));
  EXPECT_TRUE(created.failed_with(Errc::timeout));
  EXPECT_TRUE(statted.failed_with(Errc::timeout));
  EXPECT_TRUE(read.failed_with(Errc::timeout));
  EXPECT_TRUE(opened.failed_with(Errc::timeout));
  // The agent takes requests in order: what they bind late is released by what follows.
  remote.hold = Hold::none;
  remote.let_all_go();
  release(file);
  expect_nothing_left();
}

TEST_F(Interrupts, TheTimeLimitIsTheOption) {
  fs.reset();
  Options options;
  options.timeout = std::chrono::seconds(5);
  open(options);
  remote.hold = Hold::requests;
  auto pending = start_lookup(kRootNode, "d");
  loop.advance(std::chrono::seconds(5));
  EXPECT_TRUE(pending.failed_with(Errc::timeout));
}

TEST_F(Interrupts, ALostConnectionEndsEverythingAtOnce) {
  const FileId file = open_id(node, O_RDWR);
  remote.hold = Hold::requests;
  auto looked = start_lookup(kRootNode, "d");
  auto created = start_create(kRootNode, "n", O_RDWR);
  auto written = start_write(file, 0, "x");
  auto locked = start_lock(file, {1, LockKind::posix, LockType::write, true, 0, 0});
  loop.drain();
  remote.counts.clear();
  remote.disconnect();
  loop.drain();
  EXPECT_TRUE(looked.failed_with(Errc::disconnected));
  EXPECT_TRUE(created.failed_with(Errc::disconnected));
  EXPECT_TRUE(written.failed_with(Errc::disconnected));
  EXPECT_TRUE(locked.failed_with(Errc::disconnected));
  EXPECT_EQ(remote.total(), 0U);  // nothing to release where nothing is
  EXPECT_EQ(fs->counts().operations, 0U);
  EXPECT_TRUE(stat(node).failed_with(Errc::disconnected));
  EXPECT_TRUE(flush(file, 1).failed_with(Errc::disconnected));
  release(file);
  forget(node);
  EXPECT_EQ(fs->counts().files, 0U);
  EXPECT_EQ(fs->counts().nodes, 1U);
}

TEST_F(Interrupts, TheEndOfTheFileSystemEndsWhatIsUnderWay) {
  const FileId file = open_directory(kRootNode);
  remote.hold = Hold::answers;
  auto looked = start_lookup(kRootNode, "d");
  auto statted = start_stat(node);
  FakeSink sink;
  auto listed = start_list(file, 0, true, sink);
  auto refused = start_lookup(kRootNode, "..");
  fs->interrupt(looked.id, true);
  fs.reset();
  EXPECT_TRUE(looked.failed_with(Errc::cancelled));
  EXPECT_TRUE(statted.failed_with(Errc::cancelled));
  EXPECT_TRUE(listed.failed_with(Errc::cancelled));
  remote.let_all_go();
  loop.drain();  // late answers find nobody
  EXPECT_EQ(refused.os_errno(), EINVAL);
  EXPECT_TRUE(sink.taken.empty());
}

}  // namespace
}  // namespace sandbar::vfs
