// SPDX-License-Identifier: Apache-2.0
#include "mux/retransmission.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "wire/limits.h"

namespace sandbar::mux {
namespace {

/// Keeps messages whose text is their number.
void keep(Retransmission& sent, int count) {
  for (int i = 0; i < count; ++i) sent.keep(std::to_string(sent.next_number()));
}

/// What goes out again, oldest first.
std::string resent(Retransmission& sent) {
  std::string all;
  for (; const base::Bytes* message = sent.resend(); sent.resent()) all += *message + " ";
  return all;
}

TEST(Retransmission, CountsFromOneAndHasNothingToSendAgain) {
  Retransmission sent;
  EXPECT_EQ(sent.next_number(), 1U);
  EXPECT_FALSE(sent.resend());
  keep(sent, 3);
  EXPECT_EQ(sent.next_number(), 4U);
  EXPECT_FALSE(sent.resend()) << "what is kept was sent just now";
}

TEST(Retransmission, ForgetsWhatIsAcknowledged) {
  Retransmission sent;
  keep(sent, 5);
  const std::size_t five = sent.bytes();
  EXPECT_TRUE(sent.acknowledged(2));
  EXPECT_EQ(sent.bytes(), five / 5 * 3);
  EXPECT_TRUE(sent.acknowledged(2)) << "nothing new is no lie";
  EXPECT_TRUE(sent.acknowledged(5));
  EXPECT_EQ(sent.bytes(), 0U);
  EXPECT_EQ(sent.next_number(), 6U);
}

TEST(Retransmission, ALieIsToldAndChangesNothing) {
  Retransmission sent;
  EXPECT_FALSE(sent.acknowledged(1));
  EXPECT_TRUE(sent.acknowledged(0));
  keep(sent, 5);
  ASSERT_TRUE(sent.acknowledged(3));
  const std::size_t left = sent.bytes();
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{6}, ~std::uint64_t{0}}) {
    EXPECT_FALSE(sent.acknowledged(number)) << number;
    EXPECT_FALSE(sent.rewind(number)) << number;
  }
  EXPECT_EQ(sent.bytes(), left);
  EXPECT_FALSE(sent.resend());
}

TEST(Retransmission, RewindsToWhatThePeerHas) {
  for (std::uint64_t has = 2; has <= 5; ++has) {
    Retransmission sent;
    keep(sent, 5);
    ASSERT_TRUE(sent.acknowledged(2));
    ASSERT_TRUE(sent.rewind(has));
    std::string expected;
    for (std::uint64_t number = has + 1; number <= 5; ++number) expected += std::to_string(number) + " ";
    EXPECT_EQ(resent(sent), expected);
    EXPECT_EQ(sent.next_number(), 6U);
  }
}

TEST(Retransmission, WhatIsNotSentAgainYetCannotBeAcknowledged) {
  Retransmission sent;
  keep(sent, 4);
  ASSERT_TRUE(sent.rewind(1));
  EXPECT_FALSE(sent.acknowledged(2));
  sent.resent();
  EXPECT_FALSE(sent.acknowledged(3));
  EXPECT_TRUE(sent.acknowledged(2));
  EXPECT_EQ(*sent.resend(), "3");
  // Lost again in the middle: all that is not acknowledged goes out again.
  sent.resent();
  ASSERT_TRUE(sent.rewind(2));
  EXPECT_EQ(resent(sent), "3 4 ");
  // And once more, the peer having got all meanwhile.
  ASSERT_TRUE(sent.rewind(4));
  EXPECT_EQ(resent(sent), "");
  EXPECT_EQ(sent.bytes(), 0U);
}

TEST(Retransmission, IsFullAtItsBoundAndForBulkEarlier) {
  Retransmission sent;
  const std::size_t bulk_bound = wire::kMaxUnacknowledged - wire::kUnacknowledgedReserve;
  while (sent.has_room_for_bulk()) sent.keep(base::Bytes(wire::kMaxFragment, 'x'));
  EXPECT_GE(sent.bytes(), bulk_bound);
  EXPECT_LT(sent.bytes(), bulk_bound + wire::kMaxFragment + 1000);
  EXPECT_TRUE(sent.has_room());
  while (sent.has_room()) sent.keep(base::Bytes(1000, 'x'));
  EXPECT_GE(sent.bytes(), wire::kMaxUnacknowledged);
  EXPECT_LT(sent.bytes(), wire::kMaxUnacknowledged + 2000);
  // Room is a matter of acknowledgement, not of sending again.
  ASSERT_TRUE(sent.rewind(0));
  while (sent.resend()) sent.resent();
  EXPECT_FALSE(sent.has_room());
  ASSERT_TRUE(sent.acknowledged(1));
  EXPECT_TRUE(sent.has_room());
}

TEST(Retransmission, TheSmallestFramesAreBoundedToo) {
  Retransmission sent;
  std::size_t count = 0;
  for (; sent.has_room(); ++count) sent.keep(base::Bytes(24, 'x'));
  EXPECT_LE(count, wire::kMaxUnacknowledged / 64) << "each costs more than its bytes";
}

TEST(Retransmission, WhateverIsCutEachArrivesOnceInOrder) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Retransmission sent;
    std::uint64_t arrived = 0;  // at the peer
    std::uint64_t wire = 0;     // the last number that was sent on this connection
    for (int step = 0; step < 200; ++step) {
      switch (random() % 5) {
        case 0:  // sends: what is to be sent again first
        case 1:
          if (const base::Bytes* again = sent.resend()) {
            ASSERT_EQ(*again, std::to_string(++wire));
            sent.resent();
          } else {
            wire = sent.next_number();
            keep(sent, 1);
          }
          break;
        case 2:
          if (arrived < wire) ++arrived;
          break;
        case 3:
          ASSERT_TRUE(sent.acknowledged(arrived)) << "seed " << seed;
          break;
        default:
          ASSERT_TRUE(sent.rewind(arrived)) << "seed " << seed;
          wire = arrived;
      }
    }
    ASSERT_TRUE(sent.rewind(arrived));
    for (; const base::Bytes* again = sent.resend(); sent.resent()) ASSERT_EQ(*again, std::to_string(++arrived));
    EXPECT_EQ(arrived + 1, sent.next_number());
    ASSERT_TRUE(sent.acknowledged(arrived));
    EXPECT_EQ(sent.bytes(), 0U);
  }
}

}  // namespace
}  // namespace sandbar::mux
