// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "wire/limits.h"

namespace sandbar::wire {
namespace {

/// A frame of each type as it is in use: with all that it may carry.
std::vector<Frame> frames() {
  std::vector<Frame> all;
  auto add = [&](FrameType type, std::uint8_t flags, std::uint64_t channel, std::uint64_t sequence,
                 base::BytesView head, base::BytesView body) {
    all.push_back({type, flags, 0, channel, sequence, head, body});
  };
  add(FrameType::hello, 0, 0, 0, "{}", "");
  add(FrameType::request, kMore, 7, 2, "{}", "body");
  add(FrameType::request, 0, 7, 3, "", "rest");
  add(FrameType::request, 0, 8, 3, "{}", "");
  add(FrameType::response, kMore, 7, 4, "{}", "body");
  add(FrameType::response, kFailed, 7, 5, "{}", "");
  add(FrameType::cancel, 0, 7, 6, "", "");
  add(FrameType::open, 0, 9, 7, "", "");
  add(FrameType::data, 0, 9, 8, "", "bytes");
  add(FrameType::credit, 0, 9, 9, "{}", "");
  add(FrameType::end, 0, 9, 10, "", "");
  add(FrameType::reset, 0, 9, 11, "{}", "");
  add(FrameType::ping, 0, 0, 0, "", "");
  add(FrameType::ping, 0, UINT64_MAX, 0, "", "");
  add(FrameType::pong, 0, 5, 0, "", "");
  add(FrameType::goodbye, 0, 0, 0, "{}", "");
  add(FrameType::ack, 0, UINT64_MAX, 0, "", "");
  add(FrameType::end, 0, 9, UINT64_MAX, "", "");
  return all;
}

std::string why(base::BytesView message) {
  const auto frame = decode_frame(message);
  if (frame.ok()) return "";
  EXPECT_EQ(frame.error().code, Errc::protocol);
  return frame.error().detail;
}

base::Bytes changed(base::Bytes message, std::size_t at, int byte) {
  message.at(at) = static_cast<char>(byte);
  return message;
}

TEST(Frame, RoundTrip) {
  for (Frame frame : frames()) {
    frame.lane = 3;
    const base::Bytes message = encode_frame(frame);
    EXPECT_EQ(message.size(), kFrameHeader + frame.head.size() + frame.body.size());
    const auto back = decode_frame(message);
    ASSERT_TRUE(back.ok()) << back.error().message();
    EXPECT_EQ(back->type, frame.type);
    EXPECT_EQ(back->flags, frame.flags);
    EXPECT_EQ(back->lane, frame.lane);
    EXPECT_EQ(back->channel, frame.channel);
    EXPECT_EQ(back->sequence, frame.sequence);
    EXPECT_EQ(back->head, frame.head);
    EXPECT_EQ(back->body, frame.body);
  }
}

TEST(Frame, BytesOnTheWire) {
  const Frame frame{FrameType::response, kMore, 4, 0x0102030405060708, 0x1112131415161718, "HE", "BODY"};
  const unsigned char header[] = {1,    3,    1,    4,    2,    0,    0,    0,    0x08, 0x07, 0x06, 0x05,
                                  0x04, 0x03, 0x02, 0x01, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};
  EXPECT_EQ(encode_frame(frame), base::Bytes(reinterpret_cast<const char*>(header), sizeof header) + "HEBODY");
}

TEST(Frame, ShorterThanItsHeader) {
  const base::Bytes message = encode_frame({FrameType::ping, 0, 0, 1, 0, "", ""});
  for (std::size_t size = 0; size < kFrameHeader; ++size)
    EXPECT_EQ(why(base::BytesView(message).substr(0, size)), "shorter than its header");
  EXPECT_EQ(why(message), "");
}

TEST(Frame, Version) {
  const base::Bytes message = encode_frame({FrameType::ping, 0, 0, 1, 0, "", ""});
  for (const int version : {0, 2, 255}) EXPECT_EQ(why(changed(message, 0, version)), "unknown version");
}

TEST(Frame, Type) {
  const base::Bytes message = encode_frame({FrameType::ping, 0, 0, 1, 0, "", ""});
  for (const int type : {0, 14, 255}) EXPECT_EQ(why(changed(message, 1, type)), "unknown type");
}

TEST(Frame, Flags) {
  for (const Frame& frame : frames()) {
    const base::Bytes message = encode_frame(frame);
    const bool request = frame.type == FrameType::request;
    const bool response = frame.type == FrameType::response;
    EXPECT_EQ(why(changed(message, 2, kMore)) == "", request || response);
    EXPECT_EQ(why(changed(message, 2, kFailed)) == "", response);
    for (const int flags : {3, 4, 5, 128, 255})
      EXPECT_EQ(why(changed(message, 2, flags)), "flags that its type has not");
  }
}

TEST(Frame, Channel) {
  for (Frame frame : frames()) {
    base::Bytes with = encode_frame(frame);
    base::Bytes without = with;
    for (std::size_t i = 8; i < 16; ++i) with[i] = 1, without[i] = 0;
    const bool ping = frame.type == FrameType::ping || frame.type == FrameType::pong;
    const bool session = frame.type == FrameType::hello || frame.type == FrameType::goodbye;
    EXPECT_EQ(why(with) == "", ping || !session);
    EXPECT_EQ(why(without) == "", ping || session);
  }
}

TEST(Frame, Sequence) {
  for (Frame frame : frames()) {
    base::Bytes with = encode_frame(frame);
    base::Bytes without = with;
    for (std::size_t i = 16; i < 24; ++i) with[i] = 1, without[i] = 0;
    const bool numbered = is_numbered(frame.type);
    EXPECT_EQ(why(with), numbered ? "" : "wrong sequence number");
    EXPECT_EQ(why(without), numbered ? "wrong sequence number" : "");
  }
}

TEST(Frame, HeadLength) {
  const base::Bytes message = encode_frame({FrameType::request, 0, 0, 1, 1, "{}", "body"});
  EXPECT_EQ(why(changed(message, 4, 6)), "");
  EXPECT_EQ(why(changed(message, 4, 7)), "head longer than the message");
  EXPECT_EQ(why(changed(message, 7, 0xFF)), "head longer than the message");
}

TEST(Frame, HeadsAndBodiesWhereTheyBelong) {
  for (const Frame& frame : frames()) {
    const bool either = frame.type == FrameType::request || frame.type == FrameType::response;
    const bool needs_head = frame.type == FrameType::hello || frame.type == FrameType::credit ||
                            frame.type == FrameType::reset || frame.type == FrameType::goodbye;
    const bool needs_body = frame.type == FrameType::data;
    base::Bytes header = encode_frame(frame).substr(0, kFrameHeader);
    header = changed(changed(changed(header, 2, 0), 4, 0), 5, 0);
    EXPECT_EQ(why(header) == "", !needs_head && !needs_body);
    EXPECT_EQ(why(header + "body") == "", either || needs_body);
    EXPECT_EQ(why(changed(header, 4, 4) + "head") == "", either || needs_head);
    EXPECT_EQ(why(changed(header, 4, 4) + "headbody") == "", either);
  }
}

TEST(Frame, LargestParts) {
  const base::Bytes head(kMaxHead, 'h');
  const base::Bytes body(kMaxFragment, 'b');
  base::Bytes message = encode_frame({FrameType::request, 0, 0, 1, 1, head, body});
  EXPECT_EQ(message.size(), kMaxMessage);
  EXPECT_EQ(why(message), "");
  EXPECT_EQ(why(message + "b"), "body too long");
  // One byte of the body more, taken by the head: 0x40001.
  EXPECT_EQ(why(changed(message, 4, 1)), "head too long");
}

TEST(FrameDeathTest, OurOwnMistakesAreBugs) {
  const base::Bytes body(kMaxFragment + 1, 'b');
  EXPECT_DEATH(static_cast<void>(encode_frame({FrameType::data, 0, 0, 1, 1, "", body})), "assertion failed");
  EXPECT_DEATH(static_cast<void>(encode_frame({FrameType::ping, 0, 0, 1, 1, "", ""})), "assertion failed");
}

}  // namespace
}  // namespace sandbar::wire
