// SPDX-License-Identifier: Apache-2.0
#include "agent/reply_gate.h"

#include <gtest/gtest.h>

#include <vector>

namespace sandbar::agent {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;

struct Gate : testing::Test {
  std::size_t backlog = 0;
  ReplyGate gate{[this] { return backlog; }};
  std::vector<int> begun;

  void pass(int number, std::size_t room) {
    gate.pass(room, [this, number] { begun.push_back(number); });
  }
};

TEST_F(Gate, BeginsInOrderUpToItsRoom) {
  for (int i = 0; i < 100; ++i) pass(i, kMiB);
  EXPECT_EQ(begun.size(), ReplyGate::kRoom / kMiB);
  pass(100, 0);
  EXPECT_EQ(begun.size(), ReplyGate::kRoom / kMiB) << "a small one does not overtake";
  gate.answered(kMiB);
  EXPECT_EQ(begun.size(), ReplyGate::kRoom / kMiB + 1);
  for (std::size_t i = 0; i < begun.size(); ++i) EXPECT_EQ(begun[i], static_cast<int>(i));
}

TEST_F(Gate, RepliesThatNobodyReadsTakeRoom) {
  backlog = ReplyGate::kRoom;
  pass(1, kMiB);
  EXPECT_TRUE(begun.empty());
  backlog = ReplyGate::kRoom - kMiB;
  gate.look();
  EXPECT_EQ(begun.size(), 1U);
}

TEST_F(Gate, OneThatNeedsMoreThanAllIsNotStuck) {
  pass(1, 2 * ReplyGate::kRoom);
  pass(2, 1);
  EXPECT_EQ(begun, std::vector<int>{1});
  gate.answered(2 * ReplyGate::kRoom);
  EXPECT_EQ(begun, (std::vector<int>{1, 2}));
}

TEST_F(Gate, AnAnswerInsideTheBeginningGoesOnWithTheNext) {
  int depth = 0;
  int deepest = 0;
  int ran = 0;
  for (int i = 0; i < 10'000; ++i)
    gate.pass(ReplyGate::kRoom, [&] {
      deepest = std::max(deepest, ++depth);
      ++ran;
      gate.answered(ReplyGate::kRoom);
      --depth;
    });
  EXPECT_EQ(ran, 10'000);
  EXPECT_EQ(deepest, 1);
}

TEST(ReplyRoom, IsWhatTheRequestMayGetBack) {
  EXPECT_EQ(reply_room(wire::Read{wire::HandleId(1), 0, 4096}), 4096U);
  EXPECT_EQ(reply_room(wire::Lookup{}), 0U);
  wire::List list;
  list.max_bytes = 1000;
  EXPECT_EQ(reply_room(list), 1000U);
}

}  // namespace
}  // namespace sandbar::agent
