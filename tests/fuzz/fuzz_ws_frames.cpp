// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz.h"
#include "net/ws_codec.h"

namespace {

using sandbar::net::WsCodec;
using sandbar::net::WsRole;

constexpr std::size_t kMost = 4096;

struct Seen {
  WsCodec::State state = WsCodec::State::open;
  std::vector<std::string> messages;
};

Seen feed(WsRole role, std::string bytes, std::size_t step) {
  WsCodec codec(role, kMost);
  Seen seen;
  for (std::size_t at = 0; at < bytes.size(); at += step)
    seen.state = codec.receive(bytes.data() + at, std::min(step, bytes.size() - at), seen.messages);
  if (seen.state == WsCodec::State::broken) SANDBAR_ASSERT(codec.failure().code == sandbar::Errc::protocol);
  if (seen.state != WsCodec::State::open) SANDBAR_ASSERT(!codec.close_frame(codec.close_code(), "").empty());
  return seen;
}

}  // namespace

/// The first byte says whose codec, the second in which pieces the rest arrives.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const WsRole role = data[0] % 2 == 0 ? WsRole::server : WsRole::client;
  const std::string bytes(sandbar::fuzz::input(data + 2, size - 2));
  const Seen whole = feed(role, bytes, bytes.size() + 1);
  const Seen pieces = feed(role, bytes, data[1] % 16U + 1);
  SANDBAR_ASSERT(whole.state == pieces.state && whole.messages == pieces.messages);
  for (const std::string& message : whole.messages) SANDBAR_ASSERT(message.size() <= kMost);
  return 0;
}
