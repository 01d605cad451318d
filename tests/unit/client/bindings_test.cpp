// SPDX-License-Identifier: Apache-2.0
#include "client/bindings.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "wire/limits.h"

namespace sandbar::client {
namespace {

using wire::HandleId;
using wire::ObjectId;

wire::Attributes file(std::uint64_t inode) {
  wire::Attributes attributes;
  attributes.device = 7;
  attributes.inode = inode;
  attributes.birth = {static_cast<std::int64_t>(inode), 5};
  return attributes;
}

/// What must be sent, in words: "restore 2 = 1/a", "restore 2 = /x/a", "open 2 as 9 flags 1", "release 2".
class BindingsTest : public testing::Test {
 protected:
  template <class Id>
  std::vector<std::string> restore(Id id) {
    std::vector<wire::RequestBody> first;
    const Result<void> done = known.restore(id, first);
    error = done ? 0 : done.error().os_errno;
    std::vector<std::string> words;
    for (const auto& request : first) words.push_back(in_words(request));
    return words;
  }
  static std::string in_words(const wire::RequestBody& request) {
    if (const auto* restore = std::get_if<wire::Restore>(&request)) {
      EXPECT_EQ(restore->device, 7U);
      EXPECT_EQ(restore->birth, (wire::Time{static_cast<std::int64_t>(restore->inode), 5}));
      return "restore " + std::to_string(restore->object.value) + " = " +
             (restore->parent ? std::to_string(restore->parent.value) + ":" : "") + restore->path + " #" +
             std::to_string(restore->inode);
    }
    if (const auto* open = std::get_if<wire::Open>(&request))
      return "open " + std::to_string(open->object.value) + " as " + std::to_string(open->handle.value) + " flags " +
             std::to_string(open->flags);
    if (const auto* release = std::get_if<wire::Release>(&request))
      return "release " + std::to_string(release->objects.at(0).value);
    return wire::request_name(request);
  }
  void SetUp() override {
    known.attached(ObjectId(1), "/top", file(1));
    known.found(ObjectId(1), "dir", ObjectId(2), file(2));
    known.found(ObjectId(2), "f", ObjectId(3), file(3));
  }
  using Words = std::vector<std::string>;

  Bindings known;
  int error = 0;
};

TEST_F(BindingsTest, NothingIsToBeDoneInTheSameSessionOrForWhatIsNotKnown) {
  EXPECT_EQ(restore(ObjectId(3)), Words{});
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(99)), Words{});
  EXPECT_EQ(restore(HandleId(99)), Words{});
  EXPECT_EQ(error, 0);
  EXPECT_TRUE(known.is_bound(ObjectId(99)));
  EXPECT_FALSE(known.is_bound(ObjectId(3)));
}

TEST_F(BindingsTest, ParentsComeFirstAndEachOnce) {
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(3)), (Words{"restore 1 = /top #1", "restore 2 = 1:dir #2", "restore 3 = 2:f #3"}));
  EXPECT_EQ(restore(ObjectId(3)), Words{});
  EXPECT_TRUE(known.is_bound(ObjectId(3)));
  known.found(ObjectId(2), "g", ObjectId(4), file(4));
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(2)), (Words{"restore 1 = /top #1", "restore 2 = 1:dir #2"}));
  EXPECT_EQ(restore(ObjectId(4)), (Words{"restore 4 = 2:g #4"}));
  known.unbound(ObjectId(4));
  EXPECT_EQ(restore(ObjectId(4)), (Words{"restore 4 = 2:g #4"})) << "it had failed";
}

TEST_F(BindingsTest, AHandleIsOpenedAgainWithoutWhatHappensOnce) {
  known.opened(HandleId(9), ObjectId(3), 02 | 0100 | 0200 | 01000 | 02000);
  known.session_lost();
  EXPECT_EQ(restore(HandleId(9)), (Words{"restore 1 = /top #1", "restore 2 = 1:dir #2", "restore 3 = 2:f #3",
                                         "open 3 as 9 flags " + std::to_string(02 | 02000)}));
  EXPECT_EQ(restore(HandleId(9)), Words{});
  known.unbound(HandleId(9));
  EXPECT_EQ(restore(HandleId(9)).size(), 1U);
}

TEST_F(BindingsTest, AReleasedObjectIsBoundForItsHandleOnly) {
  known.opened(HandleId(9), ObjectId(3), 0);
  known.release(ObjectId(3));
  known.release(ObjectId(2));
  known.session_lost();
  EXPECT_EQ(restore(HandleId(9)), (Words{"restore 3 = /top/dir/f #3", "open 3 as 9 flags 0", "release 3"}));
  known.close(HandleId(9));
  known.release(ObjectId(1));
  const auto counts = known.counts();
  EXPECT_EQ(counts.files + counts.objects + counts.handles + counts.places, 0U);
}

TEST_F(BindingsTest, OurRenamesAreFollowed) {
  known.found(ObjectId(1), "other", ObjectId(5), file(5));
  known.renamed({ObjectId(2), "f", ObjectId(1), "moved", 0});
  known.renamed({ObjectId(1), "dir", ObjectId(1), "directory", 0});
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(3)), (Words{"restore 1 = /top #1", "restore 3 = 1:moved #3"}));
  EXPECT_EQ(restore(ObjectId(2)), (Words{"restore 2 = 1:directory #2"}));
  // What was replaced has no place any more; two that change places have both.
  known.renamed({ObjectId(1), "moved", ObjectId(1), "other", 0});
  EXPECT_EQ(restore(ObjectId(5)), Words{});
  EXPECT_EQ(error, ESTALE);
  known.renamed({ObjectId(1), "other", ObjectId(1), "directory", 2});
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(3)).back(), "restore 3 = 1:directory #3");
  EXPECT_EQ(restore(ObjectId(2)).back(), "restore 2 = 1:other #2");
}

TEST_F(BindingsTest, WhatWeRemovedIsStaleUnlessItHasAnotherName) {
  known.removed(ObjectId(2), "f");
  known.session_lost();
  restore(ObjectId(3));
  EXPECT_EQ(error, ESTALE);
  known.found(ObjectId(2), "tmp", ObjectId(6), file(6));
  known.linked(ObjectId(6), ObjectId(1), "final");
  known.removed(ObjectId(2), "tmp");
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(6)), (Words{"restore 1 = /top #1", "restore 6 = 1:final #6"}));
}

TEST_F(BindingsTest, TheSameFileUnderAnotherIdTellsWhereItIsNow) {
  // It was moved in the sandbox, and looked up there.
  known.found(ObjectId(1), "new", ObjectId(8), file(3));
  known.release(ObjectId(8));
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(3)), (Words{"restore 1 = /top #1", "restore 3 = 1:new #3"}));
}

TEST_F(BindingsTest, AnotherFileOfTheSameNameTakesItsPlace) {
  known.found(ObjectId(2), "f", ObjectId(8), file(8));
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(8)).back(), "restore 8 = 2:f #8");
  restore(ObjectId(3));
  EXPECT_EQ(error, ESTALE);
}

TEST_F(BindingsTest, ListedEntriesBelongToTheDirectoryOfTheHandle) {
  known.opened(HandleId(4), ObjectId(2), 0200000);
  known.listed(HandleId(4), "x", ObjectId(20), file(20));
  known.listed(HandleId(5), "y", ObjectId(21), file(21));
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(20)).back(), "restore 20 = 2:x #20");
  EXPECT_EQ(restore(ObjectId(21)), Words{});
  EXPECT_EQ(error, 0) << "nothing is known of it";
}

TEST_F(BindingsTest, APictureWithARingIsNotBelieved) {
  known.found(ObjectId(2), "up", ObjectId(10), file(2));  // a directory in itself
  known.found(ObjectId(2), "sub", ObjectId(11), file(11));
  known.found(ObjectId(11), "up", ObjectId(12), file(2));  // and below what is below it
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(11)).back(), "restore 11 = 2:sub #11");
  EXPECT_EQ(restore(ObjectId(12)).back(), "restore 12 = 1:dir #2");
  for (const std::uint64_t id : {1U, 2U, 3U, 10U, 11U, 12U}) known.release(ObjectId(id));
  EXPECT_EQ(known.counts().files, 0U);
}

TEST_F(BindingsTest, AnIdThatIsBoundStaysWhatItIs) {
  known.found(ObjectId(1), "liar", ObjectId(3), file(77));
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(3)).back(), "restore 3 = 2:f #3");
}

TEST_F(BindingsTest, APathBeyondTheLimitIsStaleAndOneAtItIsNot) {
  // 16 directories of 255 bytes below "/", whose ids are gone.
  known.attached(ObjectId(100), "/", file(100));
  std::uint64_t parent = 100;
  for (std::uint64_t i = 101; i < 117; ++i, ++parent)
    known.found(ObjectId(parent), std::string(i == 116 ? 254 : wire::kMaxName, 'd'), ObjectId(i), file(i));
  for (const std::uint64_t i : {115U, 114U}) known.release(ObjectId(i));
  known.session_lost();
  EXPECT_EQ(restore(ObjectId(116)).size(), 1U);
  EXPECT_EQ(error, 0);
  known.found(ObjectId(116), "x", ObjectId(117), file(117));
  known.release(ObjectId(116));
  known.session_lost();
  restore(ObjectId(117));
  EXPECT_EQ(error, ESTALE);
  known.found(ObjectId(100), "near", ObjectId(118), file(118));
  known.renamed({ObjectId(100), "near", ObjectId(117), "far", 0});
  known.session_lost();
  restore(ObjectId(118));
  EXPECT_EQ(error, ESTALE) << "its parent cannot be named";
}

}  // namespace
}  // namespace sandbar::client
