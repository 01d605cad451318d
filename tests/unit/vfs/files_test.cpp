// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "unit/vfs/mount.h"

namespace sandbar::vfs {
namespace {

using Hold = fakes::FakeRemote::Hold;

class Files : public Mount {};

TEST_F(Files, CreateWriteCloseIsThreeRequests) {
  open();
  auto created = create(kRootNode, "f", O_WRONLY | O_CREAT | O_EXCL);
  ASSERT_EQ(created.os_errno(), 0);
  const FileId file = created.result()->opened.file;
  EXPECT_EQ(*write(file, 0, "hello").result(), 5U);
  EXPECT_EQ(flush(file, 1).os_errno(), 0);
  release(file);
  EXPECT_EQ(remote.take_round_trips(), 3U);
  EXPECT_EQ(remote.tree.at("/f")->data, "hello");
  EXPECT_EQ(remote.tree.at("/f")->attributes.mode, static_cast<std::uint32_t>(S_IFREG | 0644));
  forget(created.result()->entry.node);
  expect_clean();
}

TEST_F(Files, OpenReadCloseIsThreeRequests) {
  remote.tree.put_file("/f", "hello");
  open();
  const NodeId node = find("/f").node;
  remote.take_round_trips();
  auto opened = open_file(node, O_RDONLY);
  EXPECT_FALSE(opened.result()->keep_cache);
  EXPECT_FALSE(opened.result()->direct);
  const FileId file = opened.result()->file;
  EXPECT_EQ(*read(file, 0, 4096).result(), "hello");
  EXPECT_EQ(*read(file, 1, 2).result(), "el");
  release(file);
  EXPECT_EQ(remote.take_round_trips(), 4U);
  forget(node);
  expect_clean();
}

TEST_F(Files, CreateOfAKnownFileReusesTheNode) {
  remote.tree.put_file("/f", "old");
  open();
  const NodeId node = find("/f").node;
  auto created = create(kRootNode, "f", O_RDWR | O_CREAT | O_TRUNC);
  ASSERT_EQ(created.os_errno(), 0);
  EXPECT_EQ(created.result()->entry.node, node);
  EXPECT_EQ(created.result()->entry.attributes.size, 0U);
  EXPECT_EQ(create(kRootNode, "f", O_RDWR | O_CREAT | O_EXCL).os_errno(), EEXIST);
  release(created.result()->opened.file);
  forget(node, 2);
  expect_clean();
}

TEST_F(Files, OnlyFlagsThatMeanSomethingThereArePassed) {
  remote.tree.put_file("/f", "data");
  open();
  const NodeId node = find("/f").node;
  constexpr std::uint32_t kExec = 0x20;  // FMODE_EXEC
  constexpr std::uint32_t kLargeFile = 0100000;
  EXPECT_EQ(open_file(node, O_RDONLY | kExec | kLargeFile | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK).os_errno(), 0);
  EXPECT_EQ(remote.tree.at("/f")->data, "data");
  EXPECT_TRUE(open_file(node, O_RDONLY | O_DIRECT).result()->direct);
  EXPECT_FALSE(open_file(node, O_RDWR | O_APPEND).result()->direct);
  EXPECT_TRUE(open_file(node, O_WRONLY | O_APPEND).result()->direct);
  // O_TRUNC is the agent's to do, in the same request.
  EXPECT_EQ(open_file(node, O_WRONLY | O_TRUNC).os_errno(), 0);
  EXPECT_EQ(remote.tree.at("/f")->data, "");
}

TEST_F(Files, WhatOnlySeemsToBeEmptyIsReadPastTheCache) {
  remote.tree.births = false;
  remote.tree.put_file("/made-up", "");
  remote.tree.put_file("/full", "data");
  open();
  EXPECT_TRUE(open_file(find("/made-up").node, O_RDONLY).result()->direct);
  EXPECT_FALSE(open_file(find("/made-up").node, O_RDWR).result()->direct);
  EXPECT_FALSE(open_file(find("/full").node, O_RDONLY).result()->direct);
  remote.tree.births = true;
  remote.tree.put_file("/empty", "");
  EXPECT_FALSE(open_file(find("/empty").node, O_RDONLY).result()->direct);
}

TEST_F(Files, AppendsGoWhereTheSandboxesEndIs) {
  remote.tree.put_file("/f", "one");
  open();
  const FileId file = open_id(find("/f").node, O_WRONLY | O_APPEND);
  remote.tree.at("/f")->data = "one two";
  EXPECT_EQ(
      *finish(start<std::uint64_t>([&](auto done) { return fs->write(file, 3, "!", true, std::move(done)); })).result(),
      1U);
  EXPECT_EQ(remote.tree.at("/f")->data, "one two!");
}

TEST_F(Files, LargeReadsAndWritesAreSplit) {
  remote.hello().limits.max_body = 1000;
  remote.tree.put_file("/f", "");
  open();
  const FileId file = open_id(find("/f").node, O_RDWR);
  std::string data;
  for (int i = 0; i < 2500; ++i) data.push_back(static_cast<char>(i * 7));
  remote.take_round_trips();
  EXPECT_EQ(*write(file, 10, data).result(), 2500U);
  EXPECT_EQ(remote.take_round_trips(), 3U);
  EXPECT_EQ(remote.tree.at("/f")->data, std::string(10, '\0') + data);
  EXPECT_EQ(*read(file, 10, 2500).result(), data);
  EXPECT_EQ(remote.take_round_trips(), 3U);
  EXPECT_EQ(*read(file, 10, 1000).result(), data.substr(0, 1000));
  EXPECT_EQ(remote.take_round_trips(), 1U);
  EXPECT_EQ(*read(file, 2000, 3000).result(), data.substr(1990));  // ends in the first part
  EXPECT_EQ(remote.take_round_trips(), 1U);
  EXPECT_EQ(*read(file, 9000, 3000).result(), "");
}

TEST_F(Files, NothingToReadOrWriteIsNoRequest) {
  remote.tree.put_file("/f", "x");
  open();
  const FileId file = open_id(find("/f").node, O_RDWR);
  remote.take_round_trips();
  EXPECT_EQ(*read(file, 0, 0).result(), "");
  EXPECT_EQ(*write(file, 0, "").result(), 0U);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

TEST_F(Files, AShortWriteIsPassedOn) {
  remote.hello().limits.max_body = 10;
  remote.tree.put_file("/f", "");
  open();
  const FileId file = open_id(find("/f").node, O_RDWR);
  remote.answer_next("write", {wire::Write::Reply{4, 0}, {}, {}});
  EXPECT_EQ(*write(file, 0, "abcdefgh").result(), 4U);
  remote.answer_next("write", {wire::Write::Reply{4, 0}, {}, {}});
  EXPECT_EQ(*write(file, 0, std::string(25, 'x')).result(), 4U);
}

TEST_F(Files, AWriteThatFailsLaterWasShort) {
  remote.hello().limits.max_body = 10;
  remote.tree.put_file("/f", "");
  open();
  const FileId file = open_id(find("/f").node, O_RDWR);
  remote.hold = Hold::requests;
  auto pending = start_write(file, 0, std::string(25, 'x'));
  remote.let_go(0);
  loop.drain();
  remote.fail_next("write", os_error(ENOSPC, "fake"));
  remote.let_go(0);
  EXPECT_EQ(*finish(pending).result(), 10U);
  remote.hold = Hold::none;
  remote.fail_next("write", os_error(ENOSPC, "fake"));
  EXPECT_EQ(write(file, 0, std::string(25, 'x')).os_errno(), ENOSPC);
}

TEST_F(Files, AReadThatFailsLaterFails) {
  remote.hello().limits.max_body = 10;
  remote.tree.put_file("/f", std::string(25, 'x'));
  open();
  const FileId file = open_id(find("/f").node, O_RDWR);
  remote.hold = Hold::requests;
  auto pending = start_read(file, 0, 25);
  remote.let_go(0);
  loop.drain();
  remote.fail_next("read", os_error(EIO, "fake"));
  remote.let_go(0);
  EXPECT_EQ(finish(pending).os_errno(), EIO);  // a short read would mean the end of the file
}

TEST_F(Files, MoreThanWasAskedForIsTheAgentsFault) {
  remote.tree.put_file("/f", "abc");
  open();
  const FileId file = open_id(find("/f").node, O_RDWR);
  remote.answer_next("read", {wire::EmptyReply{}, "four", {}});
  EXPECT_TRUE(read(file, 0, 3).failed_with(Errc::protocol));
  remote.answer_next("write", {wire::Write::Reply{4, 0}, {}, {}});
  EXPECT_TRUE(write(file, 0, "abc").failed_with(Errc::protocol));
  remote.answer_next("copy_range", {wire::CountReply{4}, {}, {}});
  auto copied =
      finish(start<std::uint64_t>([&](auto done) { return fs->copy_range(file, 0, file, 3, 3, std::move(done)); }));
  EXPECT_TRUE(copied.failed_with(Errc::protocol));
}

TEST_F(Files, AnUnlinkedFileLivesOnByItsHandle) {
  remote.tree.put_file("/f", "abc");
  open();
  const NodeId node = find("/f").node;
  const FileId file = open_id(node, O_RDWR);
  EXPECT_EQ(unlink(kRootNode, "f").os_errno(), 0);
  remote.make_stale(wire::ObjectId(2));  // the agent re-finds objects by name; a handle needs none
  EXPECT_EQ(stat(node).os_errno(), 0);
  EXPECT_EQ(stat(node, file).result()->attributes.links, 0U);
  Changes changes;
  changes.size = 1;
  EXPECT_EQ(change(node, changes, file).result()->attributes.size, 1U);
  changes = {};
  changes.mode = 0600;
  EXPECT_EQ(change(node, changes).os_errno(), 0);
  EXPECT_EQ(*write(file, 1, "x").result(), 1U);
  EXPECT_EQ(*read(file, 0, 10).result(), "ax");
  // The kernel may forget the node while the file is open.
  forget(node);
  EXPECT_EQ(fs->counts().nodes, 2U);
  EXPECT_EQ(*read(file, 0, 10).result(), "ax");
  release(file);
  expect_clean();
}

TEST_F(Files, TruncatingByNameDoesNotBorrowAHandle) {
  remote.tree.put_file("/f", "abc");
  open();
  const NodeId node = find("/f").node;
  open_id(node, O_RDWR);
  remote.make_stale(wire::ObjectId(2));
  Changes changes;
  changes.size = 1;
  EXPECT_EQ(change(node, changes).os_errno(), ESTALE);
}

TEST_F(Files, CloseWaitsForRunningWrites) {
  remote.tree.put_file("/f", "");
  open();
  const NodeId node = find("/f").node;
  const FileId file = open_id(node, O_RDWR);
  remote.hold = Hold::requests;
  auto first = start_write(file, 0, "a");
  auto second = start_write(file, 1, "b");
  fs->release(file, std::nullopt);
  loop.drain();
  EXPECT_EQ(remote.counts["close"], 0U);
  EXPECT_EQ(read(file, 0, 1).os_errno(), EBADF);
  EXPECT_EQ(fs->counts().files, 1U);
  remote.let_go(1);
  finish(second);
  EXPECT_EQ(remote.counts["close"], 0U);
  remote.let_go(0);
  finish(first);
  EXPECT_EQ(remote.counts["close"], 1U);
  remote.let_all_go();
  remote.hold = Hold::none;
  forget(node);
  expect_clean();
}

TEST_F(Files, CloseIsSentAtOnce) {
  remote.tree.put_file("/f", "");
  open();
  const FileId file = open_id(find("/f").node, O_RDWR);
  fs->release(file, std::nullopt);
  EXPECT_EQ(remote.counts["close"], 1U);
  fs->release(file, std::nullopt);  // unknown by now
  EXPECT_EQ(remote.counts["close"], 1U);
}

TEST_F(Files, TheRest) {
  remote.tree.put_file("/f", "abcdef");
  open();
  const FileId file = open_id(find("/f").node, O_RDWR);
  remote.take_round_trips();
  auto ok = finish(start<void>([&](auto done) { return fs->fsync(file, true, std::move(done)); }));
  EXPECT_EQ(ok.os_errno(), 0);
  ok = finish(start<void>([&](auto done) { return fs->allocate(file, 0, 0, 10, std::move(done)); }));
  EXPECT_EQ(ok.os_errno(), 0);
  EXPECT_EQ(remote.tree.at("/f")->data.size(), 10U);
  auto at = finish(start<std::uint64_t>([&](auto done) { return fs->seek(file, 2, SEEK_HOLE, std::move(done)); }));
  EXPECT_EQ(*at.result(), 10U);
  EXPECT_EQ(remote.take_round_trips(), 3U);
  at = finish(start<std::uint64_t>([&](auto done) { return fs->seek(file, 2, SEEK_END, std::move(done)); }));
  EXPECT_EQ(at.os_errno(), EINVAL);
  EXPECT_EQ(remote.take_round_trips(), 0U);
  at = finish(start<std::uint64_t>([&](auto done) { return fs->copy_range(file, 0, file, 10, 3, std::move(done)); }));
  EXPECT_EQ(*at.result(), 3U);
  EXPECT_EQ(remote.tree.at("/f")->data.substr(10), "abc");
  const FileId directory = open_directory(kRootNode);
  ok = finish(start<void>([&](auto done) { return fs->fsync(directory, false, std::move(done)); }));
  EXPECT_EQ(ok.os_errno(), 0);
}

TEST_F(Files, UnknownFilesAreBad) {
  open();
  const FileId none(9);
  EXPECT_EQ(read(none, 0, 1).os_errno(), EBADF);
  EXPECT_EQ(write(none, 0, "a").os_errno(), EBADF);
  EXPECT_EQ(flush(none, 1).os_errno(), EBADF);
  EXPECT_EQ(lock(none, {}).os_errno(), EBADF);
  FakeSink sink;
  EXPECT_EQ(list(none, 0, true, sink).os_errno(), EBADF);
  EXPECT_EQ(finish(start<void>([&](auto done) { return fs->fsync(none, false, std::move(done)); })).os_errno(), EBADF);
}

TEST_F(Files, ReadOnly) {
  remote.tree.put_file("/f", "abc");
  Options options;
  options.read_only = true;
  open(options);
  const FileId file = open_id(find("/f").node, O_RDONLY);
  EXPECT_EQ(write(file, 0, "a").os_errno(), EROFS);
  EXPECT_EQ(finish(start<void>([&](auto done) { return fs->allocate(file, 0, 0, 1, std::move(done)); })).os_errno(),
            EROFS);
  EXPECT_EQ(finish(start<std::uint64_t>([&](auto done) {
              return fs->copy_range(file, 0, file, 3, 1, std::move(done));
            })).os_errno(),
            EROFS);
  EXPECT_EQ(*read(file, 0, 9).result(), "abc");
}

TEST_F(Files, AnswersInEveryOrder) {
  remote.tree.put_file("/f", "abcdef");
  open();
  const NodeId node = find("/f").node;
  const FileId file = open_id(node, O_RDWR);
  std::vector<std::size_t> order{0, 1, 2, 3, 4};
  do {
    remote.hold = Hold::answers;
    auto looked = start_lookup(kRootNode, "f");
    auto statted = start_stat(node);
    auto read = start_read(file, 0, 3);
    auto missed = start_lookup(kRootNode, "none");
    auto opened = start_open(node, O_RDONLY);
    // order[i]: which of the five is let go i-th; the held ones move up.
    std::vector<std::size_t> left{0, 1, 2, 3, 4};
    for (const std::size_t which : order) {
      const auto at = std::find(left.begin(), left.end(), which);
      remote.let_go(static_cast<std::size_t>(at - left.begin()));
      left.erase(at);
      loop.drain();
    }
    remote.let_all_go();  // releases
    remote.hold = Hold::none;
    EXPECT_EQ(looked.result()->node, node);
    EXPECT_EQ(statted.result()->attributes.size, 6U);
    EXPECT_EQ(*read.result(), "abc");
    EXPECT_EQ(missed.os_errno(), ENOENT);
    release(opened.result()->file);
    forget(node);
    expect_ids_right();
  } while (std::next_permutation(order.begin(), order.end()));
  release(file);
  forget(node);
  expect_clean();
}

}  // namespace
}  // namespace sandbar::vfs
