// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>

#include "base/bytes.h"
#include "base/loop.h"
#include "wire/frame.h"

namespace sandbar::mux {

/// A frame that owns its bytes; numbered when it is handed to the transport.
struct OutFrame {
  wire::FrameType type = wire::FrameType::ping;
  std::uint8_t flags = 0;
  std::uint64_t channel = 0;
  base::Bytes head;
  base::Bytes body;
};

/// Decides which frame goes out next, as late as possible: what waits here can still be overtaken, what the kernel has
/// cannot. Three classes: control frames; small messages and streams with little to say; bulk, cut into fragments and
/// taken in turn. Small goes ahead of bulk, but never starves it.
class Scheduler {
 public:
  /// Messages of at most so many bytes, head and body, count as small.
  static constexpr std::size_t kSmall = 16 * 1024;
  /// After so many bytes of small messages one fragment of waiting bulk goes out.
  static constexpr std::size_t kSmallRun = 256 * 1024;

  void push_control(OutFrame frame);
  /// A whole request or response: a head, and a body that is cut into fragments.
  void push_message(OutFrame message);
  /// A cancel for a request of ours: behind its last fragment where some of it still waits here.
  void push_cancel(std::uint64_t request);

  /// Stream bytes, in order for each channel. `push_end` marks the last of them.
  void push_data(std::uint64_t channel, base::Bytes data);
  void push_end(std::uint64_t channel);
  /// Drops what waits of a channel.
  void drop_channel(std::uint64_t channel);
  /// Stream bytes of the channel that wait here.
  [[nodiscard]] std::size_t waiting(std::uint64_t channel) const;

  /// The next frame, its body at most `fragment` bytes; none when nothing waits. Without `bulk` only of control frames
  /// and small messages.
  std::optional<OutFrame> next(std::size_t fragment, bool bulk = true);
  [[nodiscard]] bool empty() const;
  /// Bytes that wait: heads and bodies of messages, and of streams.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Of these, what responses have.
  [[nodiscard]] std::size_t response_bytes() const { return response_bytes_; }

 private:
  struct Message {
    OutFrame frame;
    std::size_t sent = 0;  ///< of the body
    bool cancel_after = false;
  };
  struct Stream {
    std::deque<base::Bytes> chunks;
    std::size_t front_sent = 0;  ///< of chunks.front()
    std::size_t bytes = 0;       ///< that wait
    bool end = false;
    bool queued = false;  ///< stands in one of the two queues
  };
  /// Either a message or a channel's turn.
  struct Item {
    std::optional<Message> message;
    std::uint64_t channel = 0;
  };

  void queue_stream(std::uint64_t channel, Stream& stream);
  std::optional<OutFrame> take(std::deque<Item>& queue, std::size_t fragment);
  OutFrame take_message(Message& message, std::size_t fragment);
  std::optional<OutFrame> take_stream(std::uint64_t channel, std::size_t fragment);
  bool mark_cancel(std::deque<Item>& queue, std::uint64_t request);

  std::deque<OutFrame> control_;
  std::deque<Item> small_;
  std::deque<Item> bulk_;
  std::unordered_map<std::uint64_t, Stream> streams_;
  std::size_t small_run_ = 0;
  std::size_t response_bytes_ = 0;
  std::size_t bytes_ = 0;
};

/// How large a fragment may be so that what comes behind it waits at most kFragmentTime: the measured rate decides,
/// within wire::kMinFragment..kMaxFragment.
class FragmentSizer {
 public:
  static constexpr base::Duration kFragmentTime = std::chrono::milliseconds(30);

  /// `bytes` more were given to the transport; `blocked`: it takes no more now.
  void sent(std::size_t bytes, base::TimePoint now, bool blocked);
  /// The transport takes bytes again.
  void writable(base::TimePoint now);
  [[nodiscard]] std::size_t fragment() const { return fragment_; }

 private:
  std::size_t fragment_ = 64 * 1024;
  std::size_t bytes_ = 0;  ///< given since `since_`
  base::TimePoint since_{};
  bool blocked_ = false;
  double rate_ = 0;  ///< bytes a second, smoothed; 0: not measured
};

}  // namespace sandbar::mux
