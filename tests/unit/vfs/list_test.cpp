// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "unit/vfs/mount.h"
#include "wire/limits.h"

namespace sandbar::vfs {
namespace {

using Hold = fakes::FakeRemote::Hold;

class Lists : public Mount {
 protected:
  void fill(std::size_t entries) {
    for (std::size_t i = 0; i < entries; ++i) remote.tree.put_file("/f" + std::to_string(i), "x");
  }
  static bool is_dots(const Listed& listed) { return listed.name == "." || listed.name == ".."; }
  /// The whole directory from `cookie` on, `room` entries a call. Forgets what was looked up.
  std::vector<std::string> names(FileId file, std::uint64_t cookie, bool attributes, std::size_t room) {
    std::vector<std::string> all;
    for (;;) {
      FakeSink sink(room);
      EXPECT_EQ(list(file, cookie, attributes, sink).os_errno(), 0);
      if (sink.taken.empty()) return all;
      for (const Listed& listed : sink.taken) {
        EXPECT_EQ(listed.entry.has_value(), attributes && !is_dots(listed)) << listed.name;
        if (listed.entry) fs->forget(listed.entry->node, 1);
        all.push_back(listed.name);
      }
      cookie = sink.taken.back().cookie;
    }
  }
  static std::vector<std::string> expected(std::size_t entries) {
    std::vector<std::string> all{".", ".."};
    for (std::size_t i = 0; i < entries; ++i) all.push_back("f" + std::to_string(i));
    return all;
  }
};

TEST_F(Lists, WithoutAttributes) {
  fill(3);
  remote.tree.put_directory("/d");
  open();
  const FileId file = open_directory(kRootNode);
  FakeSink sink;
  ASSERT_EQ(list(file, 0, false, sink).os_errno(), 0);
  ASSERT_EQ(sink.taken.size(), 6U);
  EXPECT_EQ(sink.taken[0].name, ".");
  EXPECT_EQ(sink.taken[2].name, "f0");
  EXPECT_EQ(sink.taken[2].inode, remote.tree.at("/f0")->attributes.inode);
  EXPECT_EQ(sink.taken[2].type, static_cast<std::uint32_t>(S_IFREG));
  EXPECT_EQ(sink.taken[5].type, static_cast<std::uint32_t>(S_IFDIR));
  for (const Listed& listed : sink.taken) EXPECT_FALSE(listed.entry.has_value());
  release(file);
  expect_clean();
}

TEST_F(Lists, EveryBoundaryOfPagesAndReads) {
  constexpr std::size_t kEntries = 11;
  fill(kEntries);
  open();
  for (const bool attributes : {false, true})
    for (std::size_t page = 1; page <= kEntries + 4; ++page)
      for (std::size_t room = 1; room <= kEntries + 4; ++room) {
        remote.entries_per_page = page;
        const FileId file = open_directory(kRootNode);
        EXPECT_EQ(names(file, 0, attributes, room), expected(kEntries)) << page << " " << room;
        release(file);
      }
  expect_clean();
}

TEST_F(Lists, SmallReadsAreServedFromThePage) {
  fill(100);
  open();
  const FileId file = open_directory(kRootNode);
  remote.take_round_trips();
  names(file, 0, true, 7);
  EXPECT_EQ(remote.take_round_trips(), 2U);  // the page, and the end
  names(file, 0, false, 7);
  EXPECT_EQ(remote.take_round_trips(), 2U);
}

TEST_F(Lists, TakenEntriesCountAsLookups) {
  fill(5);
  open();
  const FileId file = open_directory(kRootNode);
  FakeSink sink(4);  // "." ".." f0 f1
  ASSERT_EQ(list(file, 0, true, sink).os_errno(), 0);
  ASSERT_TRUE(sink.full);
  const NodeId first = sink.taken[2].entry->node;
  EXPECT_EQ(find("/f0").node, first);
  EXPECT_EQ(sink.taken[2].entry->attributes.size, 1U);
  forget(first);
  EXPECT_EQ(stat(first).os_errno(), 0);
  forget(first);
  EXPECT_EQ(stat(first).os_errno(), ESTALE);

  // f2 was offered, not taken: it is there for the next call, with one lookup.
  FakeSink next(1);
  ASSERT_EQ(list(file, sink.taken.back().cookie, true, next).os_errno(), 0);
  ASSERT_EQ(next.taken.size(), 1U);
  EXPECT_EQ(next.taken[0].name, "f2");
  const NodeId third = next.taken[0].entry->node;
  EXPECT_EQ(stat(third).os_errno(), 0);
  forget(third);
  EXPECT_EQ(stat(third).os_errno(), ESTALE);
  EXPECT_EQ(remote.counts["list"], 1U);

  forget(sink.taken[3].entry->node);
  release(file);
  expect_clean();  // f3 and f4, never taken, are released
}

TEST_F(Lists, KnownNodesAreReused) {
  fill(2);
  open();
  const NodeId known = find("/f1").node;
  const FileId file = open_directory(kRootNode);
  FakeSink sink;
  ASSERT_EQ(list(file, 0, true, sink).os_errno(), 0);
  EXPECT_EQ(sink.taken[3].entry->node, known);
  forget(known, 2);
  forget(sink.taken[2].entry->node);
  release(file);
  expect_clean();
}

TEST_F(Lists, SeekToAnyCookie) {
  constexpr std::size_t kEntries = 30;
  fill(kEntries);
  open();
  const auto all = expected(kEntries);
  for (const bool attributes : {false, true}) {
    remote.entries_per_page = 8;
    const FileId file = open_directory(kRootNode);
    FakeSink sink;
    std::vector<std::uint64_t> cookies{0};
    while (cookies.size() <= all.size()) {
      FakeSink one(1);
      ASSERT_EQ(list(file, cookies.back(), false, one).os_errno(), 0);
      cookies.push_back(one.taken.at(0).cookie);
    }
    for (std::size_t i = 0; i < cookies.size(); ++i) {
      const std::size_t at = (i * 17) % cookies.size();
      const auto tail = std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(at), all.end());
      EXPECT_EQ(names(file, cookies[at], attributes, 5), tail);
    }
    release(file);
  }
  expect_clean();
}

TEST_F(Lists, SteppingBackAShortWayIsNoRoundTripWhileTheNodesLive) {
  fill(20);
  open();
  const FileId file = open_directory(kRootNode);
  FakeSink sink(10);
  ASSERT_EQ(list(file, 0, true, sink).os_errno(), 0);
  remote.take_round_trips();
  FakeSink again(5);
  ASSERT_EQ(list(file, sink.taken[5].cookie, true, again).os_errno(), 0);
  EXPECT_EQ(again.taken.size(), 5U);
  EXPECT_EQ(again.taken[0].name, sink.taken[6].name);
  EXPECT_EQ(again.taken[0].entry->node, sink.taken[6].entry->node);
  EXPECT_EQ(remote.take_round_trips(), 0U);

  // Once they are forgotten, the agent is asked again.
  for (const Listed& listed : sink.taken)
    if (listed.entry) fs->forget(listed.entry->node, 1);
  for (const Listed& listed : again.taken)
    if (listed.entry) fs->forget(listed.entry->node, 1);
  FakeSink third(5);
  ASSERT_EQ(list(file, sink.taken[5].cookie, true, third).os_errno(), 0);
  ASSERT_EQ(third.taken.size(), 5U);
  EXPECT_EQ(third.taken[0].name, sink.taken[6].name);
  EXPECT_EQ(remote.take_round_trips(), 1U);
  for (const Listed& listed : third.taken) fs->forget(listed.entry->node, 1);
  release(file);
  expect_clean();
}

TEST_F(Lists, ForgottenInTheMiddleOfWhatIsServedAgain) {
  fill(6);
  open();
  const FileId file = open_directory(kRootNode);
  FakeSink sink;
  ASSERT_EQ(list(file, 0, true, sink).os_errno(), 0);
  fs->forget(sink.taken[5].entry->node, 1);  // f3
  FakeSink again;
  ASSERT_EQ(list(file, sink.taken[2].cookie, true, again).os_errno(), 0);
  ASSERT_EQ(again.taken.size(), 2U);  // f1, f2; the next call goes on at f3
  FakeSink rest;
  ASSERT_EQ(list(file, again.taken.back().cookie, true, rest).os_errno(), 0);
  ASSERT_EQ(rest.taken.size(), 3U);
  EXPECT_EQ(rest.taken[0].name, "f3");
  for (const FakeSink* each : {&sink, &again, &rest})
    for (const Listed& listed : each->taken)
      if (listed.entry) fs->forget(listed.entry->node, 1);
  release(file);
  expect_clean();
}

TEST_F(Lists, TheStartIsAlwaysAskedFor) {
  fill(2);
  open();
  const FileId file = open_directory(kRootNode);
  EXPECT_EQ(names(file, 0, true, 100), expected(2));
  remote.tree.put_file("/f2", "");
  EXPECT_EQ(names(file, 0, true, 100), expected(3));
}

TEST_F(Lists, EntriesThatVanishAreListedWithoutAttributes) {
  fill(3);
  open();
  remote.vanishing["f1"] = true;
  const FileId file = open_directory(kRootNode);
  FakeSink sink;
  ASSERT_EQ(list(file, 0, true, sink).os_errno(), 0);
  ASSERT_EQ(sink.taken.size(), 5U);
  EXPECT_TRUE(sink.taken[2].entry.has_value());
  EXPECT_FALSE(sink.taken[3].entry.has_value());
  EXPECT_TRUE(sink.taken[4].entry.has_value());
  forget(sink.taken[2].entry->node);
  forget(sink.taken[4].entry->node);
  release(file);
  expect_clean();
}

TEST_F(Lists, EntriesRemovedBetweenPages) {
  fill(6);
  open();
  remote.entries_per_page = 4;  // "." ".." f0 f1
  const FileId file = open_directory(kRootNode);
  FakeSink sink;
  ASSERT_EQ(list(file, 0, false, sink).os_errno(), 0);
  remote.tree.take("/f1");
  remote.tree.take("/f2");
  EXPECT_EQ(names(file, sink.taken.back().cookie, false, 100), (std::vector<std::string>{"f3", "f4", "f5"}));
}

TEST_F(Lists, PagesGrow) {
  fill(20000);
  open();
  const FileId file = open_directory(kRootNode);
  remote.take_round_trips();
  EXPECT_EQ(names(file, 0, true, 50).size(), 20002U);
  EXPECT_LT(remote.take_round_trips(), 12U);
  release(file);
  expect_clean();
}

TEST_F(Lists, KindsCanBeMixed) {
  fill(10);
  open();
  const FileId file = open_directory(kRootNode);
  FakeSink plus(4);
  ASSERT_EQ(list(file, 0, true, plus).os_errno(), 0);
  FakeSink plain(4);
  ASSERT_EQ(list(file, plus.taken.back().cookie, false, plain).os_errno(), 0);
  EXPECT_EQ(plain.taken[0].name, "f2");
  EXPECT_EQ(remote.counts["list"], 1U);
  EXPECT_EQ(names(file, plain.taken.back().cookie, true, 100).front(), "f6");
  for (const Listed& listed : plus.taken)
    if (listed.entry) fs->forget(listed.entry->node, 1);
  release(file);
  expect_clean();
}

TEST_F(Lists, WhatIsNoPageIsTheAgentsFault) {
  open();
  const FileId file = open_directory(kRootNode);
  remote.answer_next("list", {wire::EmptyReply{}, "garbage", {}});
  FakeSink sink;
  EXPECT_TRUE(list(file, 0, true, sink).failed_with(Errc::protocol));
  EXPECT_TRUE(sink.taken.empty());
}

TEST_F(Lists, OnlyDirectories) {
  fill(1);
  open();
  const FileId file = open_id(find("/f0").node, O_RDONLY);
  FakeSink sink;
  EXPECT_EQ(list(file, 0, false, sink).os_errno(), ENOTDIR);
  auto opened =
      finish(start<Opened>([&](auto done) { return fs->open_directory(caller, find("/f0").node, std::move(done)); }));
  EXPECT_EQ(opened.os_errno(), ENOTDIR);
}

TEST_F(Lists, TwoAtOnceOnOneHandle) {
  fill(4);
  open();
  const FileId file = open_directory(kRootNode);
  remote.hold = Hold::answers;
  FakeSink first;
  FakeSink second(3);
  auto a = start_list(file, 0, true, first);
  auto b = start_list(file, 0, true, second);
  loop.drain();
  ASSERT_EQ(remote.held(), 2U);
  remote.let_go(1);
  loop.drain();
  remote.hold = Hold::none;
  remote.let_all_go();
  finish(a);
  finish(b);
  EXPECT_EQ(first.taken.size(), 6U);
  EXPECT_EQ(second.taken.size(), 3U);
  for (const FakeSink* each : {&first, &second})
    for (const Listed& listed : each->taken)
      if (listed.entry) fs->forget(listed.entry->node, 1);
  release(file);
  expect_clean();
}

}  // namespace
}  // namespace sandbar::vfs
