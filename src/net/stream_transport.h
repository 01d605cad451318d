// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/loop.h"
#include "net/stream.h"
#include "net/transport.h"
#include "net/ws_codec.h"

namespace sandbar::net {

/// A Transport on an upgraded stream; internal to net. `rest` is what was read behind the HTTP head.
std::unique_ptr<Transport> make_stream_transport(base::Loop& loop, std::unique_ptr<Stream> stream, WsRole role,
                                                 base::Bytes rest);

}  // namespace sandbar::net
