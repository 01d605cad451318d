// SPDX-License-Identifier: Apache-2.0
#include "net/ws_codec.h"

#include "net_test.h"

namespace sandbar::net::testing {
namespace {

/// Feeds a server's codec, in pieces of `step` bytes.
struct Fed {
  explicit Fed(std::string bytes, std::size_t step = 1U << 20, WsRole role = WsRole::server, std::size_t most = 1000)
      : codec(role, most) {
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      const std::size_t size = std::min(step, bytes.size() - at);
      state = codec.receive(bytes.data() + at, size, messages);
      answers += codec.take_answer();
    }
  }
  WsCodec codec;
  WsCodec::State state = WsCodec::State::open;
  std::vector<base::Bytes> messages;
  base::Bytes answers;
};

using State = WsCodec::State;
using Messages = std::vector<std::string>;

TEST(WsCodec, WhatOneSideFramesTheOtherTakesInPiecesOfAnySize) {
  for (const std::size_t step : {1U, 2U, 3U, 7U, 64U, 4096U, 1U << 20}) {
    for (const WsRole from : {WsRole::client, WsRole::server}) {
      WsCodec sender(from, 70000);
      std::string wire;
      Messages sent;
      for (const std::size_t size : {0U, 1U, 5U, 125U, 126U, 300U, 65535U, 65536U, 70000U}) {
        std::string payload;
        for (std::size_t i = 0; i < size; ++i) payload += static_cast<char>(i * 7 >> (i & 3));
        sent.push_back(payload);
        const std::string header = sender.frame(payload);
        wire += header + payload;
      }
      Fed fed(wire, step, from == WsRole::client ? WsRole::server : WsRole::client, 70000);
      EXPECT_EQ(fed.state, State::open) << fed.codec.failure().detail;
      EXPECT_TRUE(fed.messages == sent) << step;
    }
  }
}

TEST(WsCodec, AClientMasksWithChangingKeys) {
  WsCodec client(WsRole::client, 1000);
  std::string one(8, 'a'), two(8, 'a');
  const std::string first = client.frame(one), second = client.frame(two);
  EXPECT_NE(first, second);
  EXPECT_NE(one, two);
}

TEST(WsCodec, JoinsFragmentsAroundControlFrames) {
  Fed fed(raw_frame(kBinaryStart, "ab") + raw_frame(kPing, "p") + raw_frame(kContinue, "") + raw_frame(kPong, "") +
              raw_frame(kContinueEnd, "cd"),
          1);
  EXPECT_EQ(fed.messages, Messages{"abcd"});
  EXPECT_EQ(fed.answers, raw_frame(kPong, "p", false));
}

TEST(WsCodec, AnswersTheLastOfManyPings) {
  Fed fed(raw_frame(kPing, "a") + raw_frame(kPing, "b") + raw_frame(kPing, "c"));
  EXPECT_EQ(fed.answers, raw_frame(kPong, "c", false));
}

TEST(WsCodec, BoundsMessages) {
  EXPECT_EQ(Fed(raw_frame(kBinary, std::string(1000, 'x'))).messages.size(), 1U);
  for (const std::string& bytes :
       {raw_frame(kBinary, std::string(1001, 'x')),
        raw_frame(kBinaryStart, std::string(600, 'x')) + raw_frame(kContinueEnd, std::string(401, 'x')),
        std::string("\x82\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\0\0x", 15),
        // Lengths that add up to less than either: 600 + (2^64 - 100).
        raw_frame(kBinaryStart, std::string(600, 'x')) +
            std::string("\x80\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x9C\0\0\0\0x", 15)}) {
    for (const std::size_t step : {1U, 1U << 20}) {
      Fed fed(bytes, step);
      EXPECT_EQ(fed.state, State::broken);
      EXPECT_EQ(fed.codec.failure().code, Errc::protocol);
      EXPECT_EQ(fed.codec.close_code(), 1009);
      EXPECT_TRUE(fed.messages.empty());
    }
  }
}

TEST(WsCodec, RefusesText) {
  for (const std::string& bytes : {raw_frame(kText, "hello"), raw_frame(kText, ""), raw_frame(0x01, ""),
                                   raw_frame(0x01, "") + raw_frame(kContinueEnd, "x")}) {
    Fed fed(raw_frame(kBinary, "ok") + bytes + raw_frame(kContinueEnd, "") + raw_frame(kBinary, "late"));
    EXPECT_EQ(fed.state, State::broken);
    EXPECT_EQ(fed.codec.failure().code, Errc::protocol);
    EXPECT_EQ(fed.messages, Messages{"ok"});
  }
  EXPECT_EQ(Fed(raw_frame(kText, "hello")).codec.close_code(), 1003);
}

TEST(WsCodec, RefusesBadFrames) {
  for (const std::string& bytes : {
           raw_frame(kBinary, "x", false),                                                // a client that does not mask
           raw_frame(0xC2, "x"),                                                          // reserved bits
           raw_frame(0x83, "x"),                                                          // reserved opcodes
           raw_frame(0x8B, "x"),                                                          //
           raw_frame(kContinueEnd, "x"),                                                  // continues nothing
           raw_frame(kBinaryStart, "x") + raw_frame(kBinary, "y"), raw_frame(0x09, "x"),  // a ping in fragments
           raw_frame(kPing, std::string(126, 'x')),                                       // a long ping
           std::string("\x82\xFE\0\1\0\0\0\0x", 9),                                       // a length of 1 in 2 bytes
           raw_frame(kClose, "x"),                                                        // half a code
           raw_frame(kClose, std::string("\x03\xE9\xFF", 3)),                             // a reason that is not UTF-8
           raw_frame(kClose, std::string("\x03\xED", 2)),                                 // 1005 is never sent
       }) {
    Fed fed(bytes);
    EXPECT_EQ(fed.state, State::broken);
    EXPECT_EQ(fed.codec.failure().code, Errc::protocol);
    EXPECT_EQ(fed.codec.close_code() / 1000, 1);
    EXPECT_FALSE(fed.codec.close_frame(fed.codec.close_code(), "why").empty());
    EXPECT_TRUE(fed.messages.empty());
  }
  // A server that masks.
  EXPECT_EQ(Fed(raw_frame(kBinary, "x"), 100, WsRole::client).state, State::broken);
}

TEST(WsCodec, TakesNothingBehindAClose) {
  Fed fed(raw_frame(kClose,
                    "\x03\xE8"
                    "bye") +
          raw_frame(kBinary, "x"));
  EXPECT_EQ(fed.state, State::closed);
  EXPECT_EQ(fed.codec.close_reason(), "bye");
  EXPECT_EQ(fed.codec.close_code(), 1000);
  EXPECT_TRUE(fed.messages.empty());
  EXPECT_EQ(Fed(raw_frame(kClose, "")).codec.close_code(), 1000);
}

TEST(WsCodec, CutsTheReasonOfACloseFrameBetweenCharacters) {
  WsCodec server(WsRole::server, 1000);
  EXPECT_EQ(server.close_frame(1000, "bye"), raw_frame(kClose,
                                                       "\x03\xE8"
                                                       "bye",
                                                       false));
  const std::string exactly(123, 'x');
  EXPECT_EQ(server.close_frame(1000, exactly + "y"), raw_frame(kClose, "\x03\xE8" + exactly, false));
  const std::string umlaut = std::string(122, 'x') + "\xC3\xA4";
  EXPECT_EQ(server.close_frame(1000, umlaut), raw_frame(kClose, "\x03\xE8" + std::string(122, 'x'), false));
  EXPECT_EQ(server.close_frame(1000, "\xFF"), raw_frame(kClose, "\x03\xE8", false));
  EXPECT_EQ(server.close_frame(1005, "bye"), raw_frame(kClose,
                                                       "\x03\xE8"
                                                       "bye",
                                                       false));
}

}  // namespace
}  // namespace sandbar::net::testing
