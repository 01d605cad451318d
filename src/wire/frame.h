// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "sandbar/result.h"

/// The frame: one WebSocket message. Little-endian header of 24 bytes, JSON head, body bytes to the message's end:
///
///   0  u8  version (1)      4  u32 head length     16  u64 sequence number
///   1  u8  type             8  u64 channel         24  head, then body
///   2  u8  flags
///   3  u8  lane
namespace sandbar::wire {

enum class FrameType : std::uint8_t {
  hello = 1,     ///< head: Hello; once each way on each connection, first; not numbered
  request = 2,   ///< channel: RequestId. First fragment: head; the body may go on in further ones (kMore)
  response = 3,  ///< channel: RequestId of the answered request; kFailed: the head is an error
  cancel = 4,    ///< channel: RequestId. The request is still answered, once
  open = 5,      ///< channel: ChannelId of a new stream, open both ways
  data = 6,      ///< body: stream bytes
  credit = 7,    ///< head {"bytes":n}: the receiver took n bytes and may get as many more
  end = 8,       ///< no more data this way
  reset = 9,     ///< head: an error; both ways are over at once
  ping = 10,     ///< answered by pong with the same channel value; neither is numbered
  pong = 11,
  goodbye = 12,  ///< head: Goodbye; not numbered
  ack = 13,      ///< channel: the last number received on the lane; not numbered
};

enum FrameFlag : std::uint8_t {
  kMore = 1,    ///< the body goes on in the next frame of this type and channel
  kFailed = 2,  ///< response: the head is an error
};

constexpr std::uint8_t kFrameVersion = 1;
constexpr std::size_t kFrameHeader = 24;

struct Frame {
  FrameType type = FrameType::ping;
  std::uint8_t flags = 0;
  std::uint8_t lane = 0;
  std::uint64_t channel = 0;
  std::uint64_t sequence = 0;  ///< counts a session's numbered frames on a lane from 1; 0 on others
  base::BytesView head;        ///< views into the message
  base::BytesView body;
};

/// False for frames of a connection, true for those of a session, which outlive a connection.
bool is_numbered(FrameType type);

/// The message for a frame. The caller keeps to the limits: a larger head or body is our own bug.
base::Bytes encode_frame(const Frame& frame);
/// Views into `message`, which must outlive the frame. Errc::protocol for a wrong version, type, flag or length.
Result<Frame> decode_frame(base::BytesView message);

}  // namespace sandbar::wire
