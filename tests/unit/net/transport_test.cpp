// SPDX-License-Identifier: Apache-2.0
#include "net_test.h"

namespace sandbar::net::testing {
namespace {

using namespace std::chrono_literals;

std::string pattern(std::size_t size, std::size_t seed = 0) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 31 + seed * 7 + (i >> 8)) & 0xFF);
  return bytes;
}

class Transports : public NetTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string address() const {
    const std::string kind = GetParam();
    return kind == "unix" ? "unix:" + dir / "s" : kind == "tcp6" ? "[::1]:0" : "127.0.0.1:0";
  }
};
INSTANTIATE_TEST_SUITE_P(All, Transports, ::testing::Values("unix", "tcp4", "tcp6"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Transports, EchoesMessagesOfAllSizes) {
  Pair pair = make_pair(address());
  ASSERT_TRUE(pair.server);
  pair.server->seen.on_each = [&] { pair.server->transport->send(pair.server->seen.messages.back()); };
  const std::vector<std::size_t> sizes{0,
                                       1,
                                       2,
                                       3,
                                       7,
                                       8,
                                       9,
                                       124,
                                       125,
                                       126,
                                       127,
                                       128,
                                       65534,
                                       65535,
                                       65536,
                                       65537,
                                       99999,
                                       262143,
                                       262144,
                                       262145,
                                       300001,
                                       524288,
                                       kMaxTransportMessage - 1,
                                       kMaxTransportMessage};
  for (std::size_t i = 0; i < sizes.size(); ++i) pair.client->transport->send(pattern(sizes[i], i));
  ASSERT_TRUE(run_until([&] { return pair.client->seen.messages.size() == sizes.size(); }));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    EXPECT_TRUE(pair.client->seen.messages[i] == pattern(sizes[i], i)) << sizes[i];
  EXPECT_EQ(pair.client->seen.closings + pair.server->seen.closings, 0);
}

TEST_P(Transports, AMessageBeyondTheLimitClosesWithAReason) {
  Pair pair = make_pair(address());
  ASSERT_TRUE(pair.server);
  pair.client->transport->send("before");
  pair.client->transport->send(pattern(kMaxTransportMessage + 1));
  ASSERT_TRUE(run_until([&] { return pair.client->seen.closed && pair.server->seen.closed; }));
  EXPECT_EQ(pair.server->seen.messages, std::vector<std::string>{"before"});
  EXPECT_EQ(pair.server->seen.closed->code, Errc::protocol);
  EXPECT_NE(pair.server->seen.closed->detail.find("more than 524312 bytes"), std::string::npos);
  EXPECT_EQ(pair.client->seen.closed->code, Errc::disconnected);
  EXPECT_NE(pair.client->seen.closed->detail.find("more than 524312 bytes"), std::string::npos);
}

TEST_P(Transports, ManyMessagesBothWays) {
  Pair pair = make_pair(address());
  ASSERT_TRUE(pair.server);
  constexpr std::size_t kCount = 3000;
  std::size_t sent_up = 0, sent_down = 0;
  const auto size_of = [](std::size_t i) { return i % 100 == 0 ? 200000 : i * 37 % 3000; };
  const auto fill = [&](Transport& transport, std::size_t& sent) {
    while (sent < kCount && transport.writable()) {
      transport.send(pattern(size_of(sent), sent));
      ++sent;
    }
  };
  pair.client->seen.refill = [&] { fill(*pair.client->transport, sent_up); };
  pair.server->seen.refill = [&] { fill(*pair.server->transport, sent_down); };
  fill(*pair.client->transport, sent_up);
  fill(*pair.server->transport, sent_down);
  ASSERT_TRUE(run_until(
      [&] { return pair.client->seen.messages.size() == kCount && pair.server->seen.messages.size() == kCount; }));
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(pair.client->seen.messages[i] == pattern(size_of(i), i)) << i;
    ASSERT_TRUE(pair.server->seen.messages[i] == pattern(size_of(i), i)) << i;
  }
}

TEST_P(Transports, CloseFlushesAndGivesTheReason) {
  Pair pair = make_pair(address());
  ASSERT_TRUE(pair.server);
  for (int i = 0; i < 20; ++i) pair.client->transport->send(pattern(100000));
  pair.client->transport->close("enough, \xC3\xA4");
  pair.client->transport->close("again");
  pair.client->transport->send("too late");
  ASSERT_TRUE(run_until([&] { return pair.client->seen.closed && pair.server->seen.closed; }));
  EXPECT_EQ(pair.server->seen.messages.size(), 20U);
  EXPECT_EQ(pair.server->seen.closed->code, Errc::disconnected);
  EXPECT_NE(pair.server->seen.closed->detail.find("enough, \xC3\xA4"), std::string::npos);
  EXPECT_EQ(pair.client->seen.closed->code, Errc::disconnected);
  EXPECT_NE(pair.client->seen.closed->detail.find("closed on this side: enough"), std::string::npos);
  settle();
  EXPECT_EQ(pair.client->seen.closings, 1);
  EXPECT_EQ(pair.server->seen.closings, 1);
}

TEST_P(Transports, ADestroyedTransportEndsThePeer) {
  Pair pair = make_pair(address());
  ASSERT_TRUE(pair.server);
  pair.client->transport.reset();
  ASSERT_TRUE(run_until([&] { return pair.server->seen.closed.has_value(); }));
  EXPECT_EQ(pair.server->seen.closed->code, Errc::disconnected);
  EXPECT_EQ(pair.client->seen.closings, 0);
}

}  // namespace
}  // namespace sandbar::net::testing
