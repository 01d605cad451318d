// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/fuse.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "fuse/device.h"

namespace sandbar::fakes {

/// The kernel's side of a FUSE mount: raw frames in, raw replies out, in memory. A test sends a request, lets the
/// session take its turn, and looks at what came back.
class FakeKernel final : public fuse::Device {
 public:
  struct Reply {
    int error = 0;        ///< 0 or a negative errno, as on the wire
    std::string payload;  ///< behind the header
    int times = 0;        ///< how often the request was answered
  };

  ssize_t read(void* into, std::size_t size) override {
    if (unmounted_) return refuse(ENODEV);
    if (requests_.empty()) return refuse(EAGAIN);
    const std::string frame = std::move(requests_.front());
    requests_.pop_front();
    if (frame.size() > size) return refuse(EINVAL);
    std::memcpy(into, frame.data(), frame.size());
    return static_cast<ssize_t>(frame.size());
  }

  ssize_t write(struct iovec* parts, int count) override {
    std::string frame;
    for (int i = 0; i < count; ++i) frame.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    fuse_out_header header{};
    if (frame.size() < sizeof(header)) return refuse(EINVAL);
    std::memcpy(&header, frame.data(), sizeof(header));
    if (header.len != frame.size() || header.error > 0 || header.error <= -512) return refuse(EINVAL);
    if (given_up_) {
      given_up_ = false;
      return refuse(ENOENT);
    }
    Reply& reply = replies_[header.unique];
    reply.error = header.error;
    reply.payload = frame.substr(sizeof(header));
    ++reply.times;
    return static_cast<ssize_t>(frame.size());
  }

  /// Queues one request of thread `pid` of user `uid`; gives its number.
  std::uint64_t send(std::uint32_t opcode, std::uint64_t node, std::string_view arguments = {}, std::uint32_t pid = 0,
                     std::uint32_t uid = 0) {
    fuse_in_header header{};
    header.len = static_cast<std::uint32_t>(sizeof(header) + arguments.size());
    header.opcode = opcode;
    header.unique = (last_ += 2);
    header.nodeid = node;
    header.uid = uid;
    header.gid = uid;
    header.pid = pid;
    requests_.push_back(bytes(header).append(arguments));
    return header.unique;
  }
  std::uint64_t send_init(std::uint64_t flags, std::uint32_t minor = 38) {
    fuse_init_in init{};
    init.major = 7;
    init.minor = minor;
    init.max_readahead = 128 * 1024;
    init.flags = static_cast<std::uint32_t>(flags) | FUSE_INIT_EXT;
    init.flags2 = static_cast<std::uint32_t>(flags >> 32);
    return send(FUSE_INIT, 0, bytes(init));
  }
  /// The kernel interrupts the request, for an ordinary signal or a killed caller alike.
  std::uint64_t interrupt(std::uint64_t request) {
    fuse_interrupt_in interrupt{};
    interrupt.unique = request;
    return send(FUSE_INTERRUPT, 0, bytes(interrupt));
  }
  /// Bytes that are no request.
  void send_raw(std::string frame) { requests_.push_back(std::move(frame)); }

  /// The next reply is refused: its request was given up.
  void give_up_next() { given_up_ = true; }
  void unmount() { unmounted_ = true; }

  [[nodiscard]] const Reply* reply(std::uint64_t request) const {
    const auto found = replies_.find(request);
    return found == replies_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::size_t replies() const { return replies_.size(); }
  /// The payload of a reply as the struct that it begins with; zeroes where it is shorter.
  template <class T>
  [[nodiscard]] T payload(std::uint64_t request) const {
    T result{};
    if (const Reply* found = reply(request))
      std::memcpy(&result, found->payload.data(), std::min(sizeof(T), found->payload.size()));
    return result;
  }

  template <class T>
  static std::string bytes(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
  /// A C string with its zero.
  static std::string name(std::string_view text) { return std::string(text) + '\0'; }

 private:
  static ssize_t refuse(int error) {
    errno = error;
    return -1;
  }

  std::deque<std::string> requests_;
  std::map<std::uint64_t, Reply> replies_;
  std::uint64_t last_ = 0;
  bool given_up_ = false;
  bool unmounted_ = false;
};

}  // namespace sandbar::fakes
