// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include <array>

#include "base/assert.h"
#include "wire/bytes_io.h"
#include "wire/limits.h"

namespace sandbar::wire {
namespace {

enum class Part : std::uint8_t { none, optional, required };

/// What a frame of a type looks like; sandbox-mux.7 has the same table.
struct Shape {
  std::uint8_t flags;  ///< that may be set
  Part channel;        ///< required: not 0; none: 0
  Part head;
  Part body;
  bool numbered;
};

constexpr std::array<Shape, 13> kShapes{{
    {0, Part::none, Part::required, Part::none, false},                       // hello
    {kMore, Part::required, Part::optional, Part::optional, true},            // request: the head in its first fragment
    {kMore | kFailed, Part::required, Part::optional, Part::optional, true},  // response: likewise
    {0, Part::required, Part::none, Part::none, true},                        // cancel
    {0, Part::required, Part::none, Part::none, true},                        // open
    {0, Part::required, Part::none, Part::required, true},                    // data
    {0, Part::required, Part::required, Part::none, true},                    // credit
    {0, Part::required, Part::none, Part::none, true},                        // end
    {0, Part::required, Part::required, Part::none, true},                    // reset
    {0, Part::optional, Part::none, Part::none, false},                       // ping
    {0, Part::optional, Part::none, Part::none, false},                       // pong
    {0, Part::none, Part::required, Part::none, false},                       // goodbye
    {0, Part::required, Part::none, Part::none, false},                       // ack
}};

bool fits(Part part, bool present) { return part == Part::optional || (part == Part::required) == present; }

/// What is wrong with a frame; null: nothing.
const char* fault(const Frame& frame) {
  const auto type = static_cast<std::uint8_t>(frame.type);
  if (type < 1 || type > kShapes.size()) return "unknown type";
  const Shape& shape = kShapes[type - 1U];
  if ((frame.flags & ~shape.flags) != 0 || frame.flags == (kMore | kFailed)) return "flags that its type has not";
  if (!fits(shape.channel, frame.channel != 0)) return "wrong channel";
  if (shape.numbered != (frame.sequence != 0)) return "wrong sequence number";
  if (frame.head.size() > kMaxHead) return "head too long";
  if (frame.body.size() > kMaxFragment) return "body too long";
  if (!fits(shape.head, !frame.head.empty())) return "wrong head length";
  if (!fits(shape.body, !frame.body.empty())) return "wrong body length";
  return nullptr;
}

Error refuse(const char* why) { return make_error(Errc::protocol, "read a frame", why); }

}  // namespace

bool is_numbered(FrameType type) {
  const auto index = static_cast<std::uint8_t>(type);
  return index >= 1 && index <= kShapes.size() && kShapes[index - 1U].numbered;
}

base::Bytes encode_frame(const Frame& frame) {
  SANDBAR_ASSERT(fault(frame) == nullptr);
  base::Bytes message;
  message.reserve(kFrameHeader + frame.head.size() + frame.body.size());
  put(message, kFrameVersion);
  put(message, static_cast<std::uint8_t>(frame.type));
  put(message, frame.flags);
  put(message, frame.lane);
  put(message, static_cast<std::uint32_t>(frame.head.size()));
  put(message, frame.channel);
  put(message, frame.sequence);
  message += frame.head;
  message += frame.body;
  return message;
}

Result<Frame> decode_frame(base::BytesView message) {
  if (message.size() < kFrameHeader) return refuse("shorter than its header");
  if (get<std::uint8_t>(message, 0) != kFrameVersion) return refuse("unknown version");
  const std::size_t head_size = get<std::uint32_t>(message, 4);
  if (head_size > message.size() - kFrameHeader) return refuse("head longer than the message");
  Frame frame;
  frame.type = static_cast<FrameType>(get<std::uint8_t>(message, 1));
  frame.flags = get<std::uint8_t>(message, 2);
  frame.lane = get<std::uint8_t>(message, 3);
  frame.channel = get<std::uint64_t>(message, 8);
  frame.sequence = get<std::uint64_t>(message, 16);
  frame.head = message.substr(kFrameHeader, head_size);
  frame.body = message.substr(kFrameHeader + head_size);
  if (const char* why = fault(frame)) return refuse(why);
  return frame;
}

}  // namespace sandbar::wire
