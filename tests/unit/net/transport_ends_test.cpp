// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "net_test.h"

namespace sandbar::net::testing {
namespace {

using namespace std::chrono_literals;

/// A Transport of ours whose other end is the test's raw bytes.
class Ends : public NetTest {
 protected:
  void raw_pair(const std::string& behind_the_upgrade = {}) {
    if (!listener) listen_at("127.0.0.1:0");
    peer = RawPeer(endpoint_of(listener->url()));
    ASSERT_TRUE(peer.send(upgrade_request() + behind_the_upgrade));
    ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
    end = std::move(accepted.back());
    accepted.pop_back();
    ASSERT_TRUE(run_until([&] { return peer.take().received.find("\r\n\r\n") != std::string::npos; }));
    peer.received.clear();
  }
  void start() { end->transport->start(end->seen); }
  bool closed() {
    return run_until([&] { return end->seen.closed.has_value(); });
  }
  bool receives(const std::string& bytes) {
    return run_until([&] { return peer.take().received == bytes; });
  }

  RawPeer peer;
  std::unique_ptr<Peer> end;
};

TEST_F(Ends, AnswersPings) {
  raw_pair();
  start();
  ASSERT_TRUE(peer.send(raw_frame(kPing, "are you there")));
  EXPECT_TRUE(receives(raw_frame(kPong, "are you there", false)));
}

TEST_F(Ends, PingsOfAPeerThatNeverReadsDoNotPileUp) {
  raw_pair();
  start();
  std::string pings;
  for (int i = 0; i < 500; ++i) pings += raw_frame(kPing, std::string(125, 'p'));
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(peer.send(pings));
    settle();
    EXPECT_LT(end->transport->queued(), 1024U * 1024);
  }
  EXPECT_EQ(end->seen.closings, 0);
}

TEST_F(Ends, TextClosesWithItsCode) {
  raw_pair();
  start();
  ASSERT_TRUE(peer.send(raw_frame(kBinary, "ok") + raw_frame(kText, "{}") + raw_frame(kBinary, "late")));
  EXPECT_TRUE(run_until([&] { return peer.take().ended; }));
  EXPECT_EQ(peer.received.substr(0, 1) + peer.received.substr(2, 2), "\x88\x03\xEB");
  EXPECT_NE(peer.received.find("text message"), std::string::npos);
  peer.shutdown();
  ASSERT_TRUE(closed());
  EXPECT_EQ(end->seen.closed->code, Errc::protocol);
  EXPECT_EQ(end->seen.messages, std::vector<std::string>{"ok"});
}

TEST_F(Ends, APeerThatStaysAfterItBrokeTheProtocolIsCutOff) {
  raw_pair();
  start();
  ASSERT_TRUE(peer.send(raw_frame(kText, "{}")));
  ASSERT_TRUE(closed());  // 2 s
  EXPECT_EQ(end->seen.closed->code, Errc::protocol);
}

TEST_F(Ends, APeerThatDoesNotAnswerOurCloseIsCutOff) {
  raw_pair();
  start();
  end->transport->close("enough");
  EXPECT_TRUE(receives(raw_frame(kClose,
                                 "\x03\xE8"
                                 "enough",
                                 false)));
  EXPECT_TRUE(peer.send(raw_frame(kBinary, "still talking")));
  ASSERT_TRUE(closed());
  EXPECT_TRUE(end->seen.messages.empty());
  EXPECT_EQ(end->seen.closed->code, Errc::disconnected);
  EXPECT_TRUE(run_until([&] { return peer.take().ended; }));
}

TEST_F(Ends, AnswersACloseAndEnds) {
  raw_pair();
  start();
  ASSERT_TRUE(peer.send(raw_frame(kBinary, "last") + raw_frame(kClose,
                                                               "\x0F\xA0"
                                                               "over\x1B!")));
  EXPECT_TRUE(run_until([&] { return peer.take().ended; }));
  EXPECT_EQ(peer.received, raw_frame(kClose,
                                     "\x0F\xA0"
                                     "over\x1B!",
                                     false));
  ASSERT_TRUE(closed());
  EXPECT_EQ(end->seen.messages, std::vector<std::string>{"last"});
  EXPECT_NE(end->seen.closed->message().find("the peer closed it: over\\x1b!"), std::string::npos)
      << end->seen.closed->message();
}

TEST_F(Ends, APeerThatVanishes) {
  for (const std::string& sent : {std::string{}, raw_frame(kBinary, "half a message").substr(0, 9),
                                  raw_frame(kBinary, "x").substr(0, 1), raw_frame(kBinaryStart, "one of two")}) {
    for (const bool hard : {false, true}) {
      raw_pair();
      start();
      ASSERT_TRUE(sent.empty() || peer.send(sent));
      settle();
      if (hard)
        peer.reset();
      else
        peer = RawPeer();
      ASSERT_TRUE(closed());
      EXPECT_EQ(end->seen.closed->code, Errc::disconnected);
      EXPECT_TRUE(end->seen.messages.empty());
      EXPECT_EQ(end->seen.closings, 1);
    }
  }
}

TEST_F(Ends, ASlowReaderIsNotWrittenAheadOf) {
  raw_pair();
  start();
  std::size_t sent = 0;
  const std::string message(100000, 'm');
  const auto fill = [&] {
    while (end->transport->writable() && sent < 200) {
      end->transport->send(message);
      ++sent;
    }
  };
  end->seen.refill = fill;
  fill();
  EXPECT_EQ(sent, 3U);  // 256 KiB and what crossed the line
  for (std::size_t before = 0; before != sent;) {
    before = sent;
    settle();
    settle();
  }
  // The kernel's buffers are full, and ours holds little.
  EXPECT_LT(sent, 200U);
  EXPECT_FALSE(end->transport->writable());
  EXPECT_GT(end->transport->queued(), 0U);
  EXPECT_LE(end->transport->queued(), 256U * 1024 + message.size() + 20);
  const std::size_t one = raw_frame(kBinary, message, false).size();
  EXPECT_TRUE(run_until([&] { return peer.take().received.size() == 200 * one; }));
  settle();
  EXPECT_TRUE(end->transport->writable());
  EXPECT_EQ(end->transport->queued(), 0U);
  EXPECT_GT(end->seen.writables, 1);
}

TEST_F(Ends, MessagesWaitForStart) {
  raw_pair(raw_frame(kBinary, "one"));
  ASSERT_TRUE(peer.send(raw_frame(kBinary, "two") + raw_frame(kClose, "\x03\xE8")));
  peer.shutdown();
  settle();
  end->transport->send("from us");
  EXPECT_TRUE(receives(raw_frame(kBinary, "from us", false)));
  start();
  EXPECT_TRUE(end->seen.messages.empty()) << "inside start()";
  ASSERT_TRUE(closed());
  EXPECT_EQ(end->seen.messages, (std::vector<std::string>{"one", "two"}));
}

TEST_F(Ends, AnEndBeforeStartIsToldAfterIt) {
  raw_pair();
  end->transport->close("no");
  ASSERT_TRUE(run_until([&] { return peer.take().ended; }));
  end->transport->send("ignored");
  EXPECT_EQ(end->transport->queued(), 0U);
  start();
  EXPECT_EQ(end->seen.closings, 0);
  ASSERT_TRUE(closed());
  EXPECT_EQ(end->seen.closings, 1);
}

TEST_F(Ends, TheTransportMayGoInAnyCallback) {
  const Resources before = [&] {
    listen_at("127.0.0.1:0");
    return Resources::now();
  }();
  const std::string many = raw_frame(kBinary, "1") + raw_frame(kBinary, "2") + raw_frame(kBinary, "3");
  for (int where = 0; where < 4; ++where) {
    raw_pair(where == 3 ? many : std::string{});
    const auto go = [&] { end->transport.reset(); };
    if (where != 1) end->seen.on_each = go;
    if (where == 1) end->seen.refill = go;
    if (where == 2) end->seen.on_end = go;
    start();
    ASSERT_TRUE(where != 0 || peer.send(many));
    if (where == 1) end->transport->send(std::string(300000, 'x'));
    if (where == 2) peer.shutdown();
    ASSERT_TRUE(run_until([&] {
      peer.take();
      return end->transport == nullptr;
    }));
    settle();
    EXPECT_EQ(end->seen.messages.size(), where == 0 || where == 3 ? 1U : 0U);
    EXPECT_EQ(end->seen.closings, where == 2 ? 1 : 0);
    peer = RawPeer();
  }
  EXPECT_TRUE(run_until([&] { return Resources::now() == before; })) << Resources::now();
}

TEST_F(Ends, ClosedInACallbackDeliversNoMore) {
  raw_pair();
  end->seen.on_each = [&] { end->transport->close("one is enough"); };
  start();
  ASSERT_TRUE(peer.send(raw_frame(kBinary, "1") + raw_frame(kBinary, "2")));
  EXPECT_TRUE(receives(raw_frame(kClose,
                                 "\x03\xE8"
                                 "one is enough",
                                 false)));
  ASSERT_TRUE(peer.send(raw_frame(kClose, "\x03\xE8")));
  ASSERT_TRUE(closed());
  EXPECT_EQ(end->seen.messages, std::vector<std::string>{"1"});
}

/// The two directions of pipes end apart.
class Pipes : public NetTest {
 protected:
  void open() {
    std::array<int, 2> up{}, down{};
    ASSERT_EQ(::pipe2(up.data(), O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(down.data(), O_CLOEXEC), 0);
    to_end.reset(up[1]);
    from_end.reset(down[0]);
    server = serve_stdio(loop, base::UniqueFd(up[0]), base::UniqueFd(down[1]), listen_options(),
                         [](const Error& error) { ADD_FAILURE() << error.message(); });
    say(upgrade_request());
    ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
    end = std::move(accepted.back());
    end->transport->start(end->seen);
  }
  void say(const std::string& bytes) {
    ASSERT_EQ(::write(to_end.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  base::UniqueFd to_end, from_end;
  std::unique_ptr<StdioServer> server;
  std::unique_ptr<Peer> end;
};

TEST_F(Pipes, WhenNobodyReadsTheLastWordsAreStillHeard) {
  open();
  from_end.reset();
  end->transport->send("lost");
  settle();
  EXPECT_EQ(end->seen.closings, 0);
  say(raw_frame(kBinary, "before") + raw_frame(kClose,
                                               "\x03\xE8"
                                               "why"));
  ASSERT_TRUE(run_until([&] { return end->seen.closed.has_value(); }));
  EXPECT_EQ(end->seen.messages, std::vector<std::string>{"before"});
  EXPECT_NE(end->seen.closed->message().find("the peer closed it: why"), std::string::npos);
}

TEST_F(Pipes, WhenNobodyReadsAndNothingIsSaidItEnds) {
  open();
  from_end.reset();
  end->transport->send("lost");
  ASSERT_TRUE(run_until([&] { return end->seen.closed.has_value(); }));  // 2 s
  EXPECT_EQ(end->seen.closed->code, Errc::disconnected);
  EXPECT_NE(end->seen.closed->message().find("Broken pipe"), std::string::npos) << end->seen.closed->message();
}

TEST_F(Pipes, WhenTheInputEnds) {
  open();
  to_end.reset();
  ASSERT_TRUE(run_until([&] { return end->seen.closed.has_value(); }));
  EXPECT_EQ(end->seen.closed->code, Errc::disconnected);
}

TEST_F(Pipes, TheEndOfACommandIsExplained) {
  const std::string up = dir / "up", down = dir / "down", stop = dir / "stop";
  for (const std::string& fifo : {up, down, stop}) ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  base::UniqueFd in(::open(up.c_str(), O_RDWR | O_CLOEXEC)), out(::open(down.c_str(), O_RDWR | O_CLOEXEC));
  server = serve_stdio(loop, std::move(in), std::move(out), listen_options(), [](const Error&) {});
  // In the background an asynchronous command's stdin is /dev/null, so the shell's own is given to it by number.
  auto connected = connect_to(command("exec 3<&0; cat <&3 >" + up + " & a=$!; cat <" + down + " & read -r line <" +
                                      stop + "; kill $a $!; exit 7"));
  ASSERT_TRUE(connected.ok()) << connected.error().message();
  Peer client(loop);
  client.transport = std::move(*connected);
  client.transport->start(client.seen);
  settle();
  EXPECT_EQ(client.seen.closings, 0);
  const base::UniqueFd go(::open(stop.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(go.get(), "\n", 1), 1);
  ASSERT_TRUE(run_until([&] { return client.seen.closed.has_value(); }));
  EXPECT_EQ(client.seen.closed->code, Errc::disconnected);
  EXPECT_NE(client.seen.closed->message().find("the command ended with code 7"), std::string::npos)
      << client.seen.closed->message();
}

}  // namespace
}  // namespace sandbar::net::testing
