// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "net/ws_upgrade.h"

namespace {

using sandbar::net::WsClientUpgrade;
using sandbar::net::WsServerUpgrade;

void serve(std::string_view bytes) {
  WsServerUpgrade server("sandbox-mux.v1");
  const auto state = server.receive(bytes);
  if (state == WsServerUpgrade::State::more) return;
  if (state == WsServerUpgrade::State::decide && server.accept()) {
    SANDBAR_ASSERT(server.response().rfind("HTTP/1.1 101 ", 0) == 0);
    server.take_rest();
  } else {
    SANDBAR_ASSERT(server.response().rfind("HTTP/1.1 4", 0) == 0);
    SANDBAR_ASSERT(!server.failure().detail.empty());
  }
}

void connect(std::string_view bytes) {
  WsClientUpgrade client({"localhost", "/", "sandbox-mux.v1", "token"});
  const auto state = client.receive(bytes);
  // The answer depends on a key of 16 random bytes.
  SANDBAR_ASSERT(state != WsClientUpgrade::State::upgraded);
  if (state == WsClientUpgrade::State::failed) SANDBAR_ASSERT(!client.failure().detail.empty());
}

}  // namespace

/// The first byte says which side.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const auto bytes = sandbar::fuzz::input(data + 1, size - 1);
  if (data[0] % 2 == 0)
    serve(bytes);
  else
    connect(bytes);
  return 0;
}
