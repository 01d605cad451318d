// SPDX-License-Identifier: Apache-2.0
#include "net/network_changes.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace sandbar::net {
namespace {

/// What one message of the kernel may be long; a longer one counts as a change.
constexpr std::size_t kMessage = 8 * 1024;
/// Read in one turn; a storm of messages must not hold the loop.
constexpr int kMaxRead = 64;

base::UniqueFd open_socket_for_changes() {
  base::UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) fd.reset();
  return fd;
}

class Watcher final : public NetworkChanges {
 public:
  Watcher(base::Loop& loop, base::Task changed)
      : loop_(loop), changed_(std::make_shared<base::Task>(std::move(changed))), fd_(open_socket_for_changes()) {
    if (fd_) watch_ = loop_.watch(fd_.get(), base::Readiness::readable, [this] { readable(); });
  }
  ~Watcher() override {
    if (watch_) loop_.unwatch(watch_);
    if (timer_) loop_.cancel(timer_);
  }

 private:
  void readable() {
    bool change = false;
    for (int i = 0; i < kMaxRead; ++i) {
      alignas(nlmsghdr) std::array<char, kMessage> buffer;  // NOLINT: filled by recvfrom()
      sockaddr_nl from{};
      socklen_t from_size = sizeof from;
      const ssize_t got = ::recvfrom(fd_.get(), buffer.data(), buffer.size(), MSG_TRUNC,
                                     reinterpret_cast<sockaddr*>(&from), &from_size);
      // ENOBUFS: so many changes that some were lost.
      if (got < 0 && errno == ENOBUFS) change = true;
      if (got < 0 && (errno == ENOBUFS || errno == EINTR)) continue;
      if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK) loop_.unwatch(std::exchange(watch_, {}));
      if (got <= 0) break;
      if (from.nl_pid != 0) continue;  // not the kernel's
      const auto size = static_cast<std::size_t>(got);
      change = change || size > buffer.size() || tells_change(buffer.data(), size);
    }
    if (!change || timer_) return;
    timer_ = loop_.schedule(kNetworkChangeBurst, [this] {
      timer_ = {};
      const auto changed = changed_;  // it may destroy this
      (*changed)();
    });
  }

  /// A link's message also comes for what is nobody's business (its statistics, its wireless state).
  static bool tells_change(const char* bytes, std::size_t size) {
    auto left = static_cast<unsigned>(size);
    for (const auto* header = reinterpret_cast<const nlmsghdr*>(bytes); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == RTM_NEWADDR || header->nlmsg_type == RTM_DELADDR || header->nlmsg_type == RTM_DELLINK)
        return true;
      if (header->nlmsg_type != RTM_NEWLINK || header->nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg))) continue;
      const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(header));
      if (link->ifi_change != 0) return true;
    }
    return false;
  }

  base::Loop& loop_;
  std::shared_ptr<base::Task> changed_;
  base::UniqueFd fd_;
  base::WatchId watch_;
  base::TimerId timer_;
};

}  // namespace

std::unique_ptr<NetworkChanges> watch_network(base::Loop& loop, base::Task changed) {
  return std::make_unique<Watcher>(loop, std::move(changed));
}

}  // namespace sandbar::net
