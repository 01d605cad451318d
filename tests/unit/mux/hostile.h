// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unit/mux/session_pair.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/limits.h"

namespace sandbar::mux {

/// As wire::encode_frame, which would not write what a hostile peer does.
inline std::string encode_anything(const wire::Frame& frame) {
  std::string out;
  const auto put = [&out](std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i) & 0xFF);
  };
  put(wire::kFrameVersion, 1);
  put(static_cast<std::uint64_t>(frame.type), 1);
  put(frame.flags, 1);
  put(frame.lane, 1);
  put(frame.head.size(), 4);
  put(frame.channel, 8);
  put(frame.sequence, 8);
  return out.append(frame.head).append(frame.body);
}

inline wire::Hello plain_hello() {
  wire::Hello hello;
  hello.limits = {wire::kMaxBody, wire::kMaxRequests, wire::kRequestWindow, wire::kMaxChannels, wire::kChannelWindow};
  return hello;
}

/// A session, the agent's by default, whose peer is the test, frame by frame.
struct Hostile : net::Transport::Handler {
  Hostile() : Hostile(agent("")) {}
  explicit Hostile(SessionOptions options) {
    session = std::make_unique<Session>(loop, connect(), std::move(options), handler);
  }
  static SessionOptions agent(const std::string& name) {
    SessionOptions options;
    options.role = Role::agent;
    options.hello.session = name;
    return options;
  }
  static SessionOptions client() {
    SessionOptions options;
    options.role = Role::client;
    options.resumable = true;
    return options;
  }

  void on_message(base::Bytes message) override { received.push_back(std::move(message)); }
  void on_writable() override {}
  void on_closed(Error) override { gone = true; }

  /// A new connection, whose other end is the session's.
  std::unique_ptr<net::Transport> connect() {
    auto [a, b] = fakes::FakeTransport::pair(loop);
    mine = std::move(a);
    mine->start(*this);
    loop.drain();
    gone = false;
    return std::move(b);
  }
  void raw(base::Bytes message) {
    mine->send(std::move(message));
    loop.drain();
  }
  void send(wire::FrameType type, std::uint64_t channel, std::string head = {}, std::string body = {},
            std::uint8_t flags = 0) {
    const bool numbered = wire::is_numbered(type);
    raw(encode_anything(wire::Frame{type, flags, 0, channel, numbered ? ++sequence : 0, head, body}));
  }
  void hello(const wire::Hello& hello = plain_hello()) { send(wire::FrameType::hello, 0, wire::encode_hello(hello)); }
  void expect_thrown_out() {
    ASSERT_TRUE(handler.closed);
    EXPECT_EQ(handler.closed->code, Errc::protocol) << handler.closed->message();
    EXPECT_TRUE(gone);
  }
  /// The last frame of the type that came; the session must have sent one.
  wire::Frame last(wire::FrameType type) {
    wire::Frame found;
    found.type = wire::FrameType::pong;
    for (const base::Bytes& message : received)
      if (const auto frame = wire::decode_frame(message); frame.ok() && frame->type == type) found = *frame;
    EXPECT_EQ(found.type, type);
    return found;
  }

  fakes::FakeLoop loop;
  Recorder handler;
  std::unique_ptr<fakes::FakeTransport> mine;
  std::unique_ptr<Session> session;
  std::vector<base::Bytes> received;
  std::uint64_t sequence = 0;
  bool gone = false;
};

}  // namespace sandbar::mux
