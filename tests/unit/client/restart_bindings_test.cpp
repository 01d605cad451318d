// SPDX-License-Identifier: Apache-2.0
// Objects, handles and locks after a lost session.
#include <fcntl.h>

#include <cerrno>

#include "restart_fixture.h"

namespace sandbar::client {
namespace {

using RestartBindings = RestartTest;

TEST_F(RestartBindings, IdsAreBoundAgainWhenTheyAreNamedAndNotBefore) {
  open_one_file();
  lookup(1, "g", 3);
  lose_and_restart(hello(0, 2));
  EXPECT_EQ(asked(), Words{});
  submit(wire::GetAttributes{ObjectId(3), {}});
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 3", "get_attributes"})) << "without waiting";
  submit(wire::GetAttributes{ObjectId(3), {}});
  submit(wire::Read{HandleId(1), 0, 1});
  EXPECT_EQ(asked(3), (Words{"get_attributes", "restore 2", "open 2 as 1", "read"}));
  const auto& root = std::get<wire::Restore>(agent.requests.at(0).body);
  EXPECT_EQ(root, (wire::Restore{ObjectId(1), {}, "/top", 5, 1, {}}));
  const auto& file = std::get<wire::Restore>(agent.requests.at(1).body);
  EXPECT_EQ(file, (wire::Restore{ObjectId(3), ObjectId(1), "g", 5, 3, {}}));
  EXPECT_FALSE(agent.requests.at(1).context.caller.has_value());
}

TEST_F(RestartBindings, ARequestOfTwoObjectsAndOneOfTwoHandles) {
  open_one_file();
  lookup(1, "d", 3);
  lookup(3, "e", 4);
  open_file(4, 2);
  lose_and_restart(hello(0, 2));
  submit(wire::Rename{ObjectId(3), "a", ObjectId(1), "b", 0});
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 3", "rename"}));
  submit(wire::CopyRange{HandleId(1), 0, HandleId(2), 0, 1});
  EXPECT_EQ(asked(3), (Words{"restore 2", "open 2 as 1", "restore 4", "open 4 as 2", "copy_range"}));
}

TEST_F(RestartBindings, FlagsOfCreateAndOpenWithoutWhatHappensOnce) {
  attach(1);
  submit(wire::Create{ObjectId(1), "new", 0444, O_RDWR | O_EXCL | O_TRUNC, ObjectId(2), HandleId(1)});
  answer_file(1, 2);
  open_file(2, 2, O_WRONLY | O_TRUNC | O_APPEND);
  lose_and_restart(hello(2, 2));
  submit(wire::Read{HandleId(1), 0, 1});
  submit(wire::Read{HandleId(2), 0, 1});
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 2", "open 2 as 1", "read", "open 2 as 2", "read"}));
  EXPECT_EQ(std::get<wire::Open>(agent.requests.at(2).body).flags, static_cast<std::uint32_t>(O_RDWR));
  EXPECT_EQ(std::get<wire::Open>(agent.requests.at(4).body).flags, static_cast<std::uint32_t>(O_WRONLY | O_APPEND));
  EXPECT_EQ(agent.requests.at(4).context, wire::RequestContext{}) << "no mutation, and by the agent itself";
}

TEST_F(RestartBindings, WhatTheAnswersNameIsKnown) {
  attach(1);
  submit(wire::MakeDirectory{ObjectId(1), "d", 0755, ObjectId(2)});
  answer_file(1, 2);
  submit(wire::MakeNode{ObjectId(2), "n", 0100644, 0, ObjectId(3)});
  answer_file(2, 3);
  submit(wire::MakeSymlink{ObjectId(2), "s", "t", ObjectId(4)});
  answer_file(3, 4);
  open_file(2, 7, O_DIRECTORY);
  submit(wire::List{HandleId(7), 0, 4096, true, ObjectId(50)});
  base::Bytes page;
  wire::append_dir_entry(
      page, {.name = "listed", .cookie = 1, .inode = 9, .type = 0, .attributes = attributes(9), .object_offset = 4});
  wire::append_dir_entry(page,
                         {.name = "gone", .cookie = 2, .inode = 10, .type = 0, .attributes = {}, .object_offset = 5});
  answer(5, wire::EmptyReply{}, page);
  lose_and_restart(hello(3, 2));
  for (const std::uint64_t id : {3U, 4U, 54U, 55U}) submit(wire::GetAttributes{ObjectId(id), {}});
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 2", "restore 3", "get_attributes", "restore 4", "get_attributes",
                            "restore 54", "get_attributes", "get_attributes"}));
}

TEST_F(RestartBindings, NamesThatThisClientChanged) {
  open_one_file();
  lookup(1, "d", 3);
  done(wire::Rename{ObjectId(1), "f", ObjectId(3), "g", 0});
  lookup(3, "h", 4);
  done(wire::Unlink{ObjectId(3), "h"});
  lookup(3, "e", 5);
  done(wire::RemoveDirectory{ObjectId(3), "e"});
  lookup(3, "tmp", 6);
  submit(wire::MakeLink{ObjectId(6), ObjectId(1), "final"});
  answer_file(agent.requests.size() - 1, 6);
  done(wire::Unlink{ObjectId(3), "tmp"});
  lose_and_restart(hello(5, 2));
  submit(wire::Read{HandleId(1), 0, 1});
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 3", "restore 2", "open 2 as 1", "read"}));
  EXPECT_EQ(std::get<wire::Restore>(agent.requests.at(2).body).path, "g");
  EXPECT_EQ(submit(wire::GetAttributes{ObjectId(4), {}})->os_errno(), ESTALE);
  EXPECT_EQ(submit(wire::GetAttributes{ObjectId(5), {}})->os_errno(), ESTALE);
  submit(wire::GetAttributes{ObjectId(6), {}});
  EXPECT_EQ(asked(5), (Words{"restore 6", "get_attributes"}));
}

TEST_F(RestartBindings, AnOpenFileThatWasRemovedIsStaleAndCanBeClosed) {
  open_one_file();
  done(wire::Unlink{ObjectId(1), "f"});
  lose_and_restart(hello(1, 2));
  EXPECT_EQ(submit(wire::Read{HandleId(1), 0, 1})->os_errno(), ESTALE);
  EXPECT_EQ(submit(wire::Write{HandleId(1), 0, false}, "x")->os_errno(), ESTALE);
  EXPECT_TRUE(submit(wire::Close{HandleId(1)})->ok());
  EXPECT_TRUE(submit(wire::Release{{ObjectId(2)}})->ok());
  EXPECT_EQ(files_->known().handles, 0U);
  EXPECT_EQ(files_->known().objects, 1U);
}

TEST_F(RestartBindings, WhatIsNotFoundFailsWithThatAndIsTriedAgainByTheNext) {
  open_one_file();
  lose_and_restart(hello(0, 2));
  const auto read = submit(wire::Read{HandleId(1), 0, 1});
  ASSERT_EQ(asked(), (Words{"restore 1", "restore 2", "open 2 as 1", "read"}));
  answer_file(0, 1);
  for (std::size_t i = 1; i < 4; ++i) refuse(i, os_error(ESTALE, "find the object again"));
  EXPECT_EQ(read->os_errno(), ESTALE);
  ASSERT_EQ(asked(4), (Words{"release", "close"})) << "the agent keeps what failed";
  EXPECT_EQ(std::get<wire::Release>(agent.requests.at(4).body).objects, (std::vector{ObjectId(2)}));
  EXPECT_EQ(std::get<wire::Close>(agent.requests.at(5).body).handle, HandleId(1));
  const auto again = submit(wire::Read{HandleId(1), 0, 1});
  EXPECT_EQ(asked(6), (Words{"restore 2", "open 2 as 1", "read"}));
  answer(8, wire::EmptyReply{}, "x");
  EXPECT_TRUE(again->ok());
}

TEST_F(RestartBindings, IdsThatEndInBetweenAreNotBoundForThat) {
  open_one_file();
  lookup(1, "g", 3);
  const auto closing = submit(wire::Close{HandleId(1)});
  lose();
  const auto releasing = submit(wire::Release{{ObjectId(2), ObjectId(3)}});
  restart(hello(0, 2));
  EXPECT_EQ(asked(), Words{});
  EXPECT_TRUE(closing->ok() && releasing->ok());
  EXPECT_EQ(files_->known().objects, 1U);
  submit(wire::Release{{ObjectId(1), ObjectId(77)}});
  EXPECT_EQ(asked(), Words{"release"}) << "77 may be bound by what is under way";
}

TEST_F(RestartBindings, ACloseBehindAReadThatGoesOutAgain) {
  open_one_file();
  submit(wire::Read{HandleId(1), 0, 1});
  const auto closing = submit(wire::Close{HandleId(1)});
  lose_and_restart(hello(0, 2));
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 2", "open 2 as 1", "read", "close"}));
  answer(4);
  EXPECT_TRUE(closing->ok());
}

TEST_F(RestartBindings, ChainsThatWereNotAnsweredBindTheirOwnIds) {
  attach(1);
  const auto lookup = submit(wire::Lookup{ObjectId(1), "f", ObjectId(2)});
  const auto open = submit(wire::Open{ObjectId(2), HandleId(1), O_RDWR});
  const auto read = submit(wire::Read{HandleId(1), 0, 1});
  lose_and_restart(hello(0, 2));
  EXPECT_EQ(asked(), (Words{"restore 1", "lookup", "open 2 as 1", "read"}));
  answer_file(1, 2);
  answer_file(2, 2);
  answer(3, wire::EmptyReply{}, "x");
  EXPECT_TRUE(read->ok());
  lose_and_restart(hello(0, 3));
  submit(wire::Read{HandleId(1), 0, 1});
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 2", "open 2 as 1", "read"}));
}

TEST_F(RestartBindings, NothingIsKeptOfWhatIsOver) {
  open_one_file();
  for (std::uint64_t i = 10; i < 200; ++i) {
    lookup(1, ("n" + std::to_string(i)).c_str(), i);
    open_file(i, i);
    done(wire::Close{HandleId(i)});
    done(wire::Release{{ObjectId(i)}});
  }
  EXPECT_EQ(files_->known().files, 2U);
  EXPECT_EQ(files_->known().objects, 2U);
  EXPECT_EQ(files_->known().handles, 1U);
  EXPECT_EQ(files_->known().places, 1U);
}

TEST_F(RestartBindings, NothingIsRememberedWhereNoSessionFollows) {
  files_.emplace(loop, *client_, true);
  open_one_file();
  EXPECT_EQ(files_->known().files, 0U);
}

// --- Locks -----------------------------------------------------------------------------------------------------

TEST_F(RestartBindings, AHandleWhoseLockIsLostGivesEioUntilItIsClosed) {
  open_one_file();
  open_file(2, 2);
  lock(1, 10);
  const auto under_way = submit(wire::Write{HandleId(1), 0, false}, "x");
  lose();
  EXPECT_FALSE(submit(wire::Read{HandleId(1), 0, 1})->result.has_value());
  restart(hello(0));
  EXPECT_EQ(under_way->os_errno(), EIO);
  const wire::Lock again{.handle = HandleId(1), .owner = wire::LockOwner(10), .type = wire::LockType::write};
  const wire::Lock other{.handle = HandleId(1), .owner = wire::LockOwner(11), .type = wire::LockType::read};
  wire::SetAttributes truncate = set_mode(2, 0600, 1);
  truncate.size = 0;
  for (const wire::RequestBody& request :
       {wire::RequestBody(wire::Read{HandleId(1), 0, 1}), wire::RequestBody(wire::Write{HandleId(1), 0, true}),
        wire::RequestBody(wire::Fsync{HandleId(1), true}), wire::RequestBody(again), wire::RequestBody(other),
        wire::RequestBody(wire::TestLock{.handle = HandleId(1), .owner = {}}),
        wire::RequestBody(wire::Allocate{HandleId(1), 0, 0, 1}), wire::RequestBody(wire::Seek{HandleId(1), 0, 3}),
        wire::RequestBody(wire::CopyRange{HandleId(2), 0, HandleId(1), 0, 1}), wire::RequestBody(truncate),
        wire::RequestBody(wire::GetAttributes{{}, HandleId(1)})})
    EXPECT_EQ(submit(request)->os_errno(), EIO) << wire::request_name(request);
  const Words all = asked();
  EXPECT_EQ(std::count(all.begin(), all.end(), "read"), 0) << "nothing goes out by it";
}

TEST_F(RestartBindings, CloseUnlockAndStatGoOnWithALostLock) {
  open_one_file();
  lock(1, 10);
  lose_and_restart(hello(0));
  submit(wire::GetAttributes{ObjectId(2), HandleId(1)});
  submit(set_mode(2, 0600, 1));
  ASSERT_EQ(asked(), (Words{"restore 1", "restore 2", "get_attributes", "set_attributes"}));
  EXPECT_EQ(agent.requests.at(2).body, wire::RequestBody(wire::GetAttributes{ObjectId(2), {}}));
  EXPECT_FALSE(std::get<wire::SetAttributes>(agent.requests.at(3).body).handle);
  const wire::Lock unlock{.handle = HandleId(1), .owner = wire::LockOwner(10), .type = wire::LockType::unlock};
  EXPECT_TRUE(submit(unlock)->ok());
  EXPECT_TRUE(submit(wire::Close{HandleId(1)})->ok());
  open_file(2, 3);
  submit(wire::Read{HandleId(3), 0, 1});
  EXPECT_EQ(asked().back(), "read") << "opened anew it is as any";
}

TEST_F(RestartBindings, HandlesOfOthersGoOn) {
  open_one_file();
  open_file(2, 2);
  open_file(2, 3);
  lock(1, 10);
  lock(2, 20, wire::LockType::read);
  lock(2, 20, wire::LockType::unlock);
  lose_and_restart(hello(0));
  EXPECT_EQ(submit(wire::Read{HandleId(1), 0, 1})->os_errno(), EIO);
  submit(wire::Read{HandleId(2), 0, 1});
  submit(wire::Read{HandleId(3), 0, 1});
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 2", "open 2 as 2", "read", "open 2 as 3", "read"}));
}

TEST_F(RestartBindings, AFlockIsLostToo) {
  open_one_file();
  done(wire::Lock{.handle = HandleId(1),
                  .owner = wire::LockOwner(1),
                  .kind = wire::LockKind::flock,
                  .type = wire::LockType::write});
  lose_and_restart(hello(0));
  EXPECT_EQ(submit(wire::Read{HandleId(1), 0, 1})->os_errno(), EIO);
}

TEST_F(RestartBindings, ALockThatIsWaitedForIsAskedForAgain) {
  open_one_file();
  const wire::Lock wanted{
      .handle = HandleId(1), .owner = wire::LockOwner(1), .type = wire::LockType::write, .wait = true};
  const auto waiting = submit(wanted);
  lose_and_restart(hello(0));
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 2", "open 2 as 1", "lock"}));
  answer(3);
  EXPECT_TRUE(waiting->ok());
  lose_and_restart(hello(0));
  EXPECT_EQ(submit(wire::Read{HandleId(1), 0, 1})->os_errno(), EIO) << "now it was held";
}

TEST_F(RestartBindings, LocksThatAreLostWithoutTheSession) {
  open_one_file();
  lock(1, 10);
  files_->locks_lost();
  EXPECT_EQ(submit(wire::Read{HandleId(1), 0, 1})->os_errno(), EIO);
  const std::size_t before = agent.requests.size();
  submit(wire::Lock{.handle = HandleId(1), .owner = wire::LockOwner(10), .type = wire::LockType::unlock});
  submit(wire::Close{HandleId(1)});
  EXPECT_EQ(asked(before), (Words{"lock", "close"})) << "the agent knows the handle";
}

}  // namespace
}  // namespace sandbar::client
