// SPDX-License-Identifier: Apache-2.0
#include "net/dial.h"

#include <cerrno>
#include <list>
#include <utility>

namespace sandbar::net {
namespace {

/// A Unix socket whose backlog is full refuses with EAGAIN and has nothing to wait for.
constexpr base::Duration kBacklogRetry = std::chrono::milliseconds(20);

struct Attempt {
  base::UniqueFd socket;
  SocketAddress address;
  base::WatchId watch;
};

class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  Dialer(base::Loop& loop, std::vector<SocketAddress> addresses, base::Function<void(Result<Dialed>)> done)
      : loop_(loop), addresses_(interleaved(addresses)), done_(std::move(done)) {}

  void start() {
    loop_.post([weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && self->done_) self->try_next();
    });
  }
  void abandon() {
    done_ = nullptr;
    release();
  }

 private:
  void try_next() {
    set_timer(base::Duration::zero());
    while (next_ < addresses_.size()) {
      const SocketAddress& address = addresses_[next_++];
      const int error = begin(address);
      if (error == EAGAIN) {
        --next_;
        return set_timer(kBacklogRetry);
      }
      if (error == 0) {
        if (next_ < addresses_.size()) set_timer(kNextAttempt);
        return;
      }
      remember(error);
    }
    if (attempts_.empty()) finish(os_error(error_, {}));
  }

  /// 0: under way.
  int begin(const SocketAddress& address) {
    auto socket = open_socket(address.family());
    if (!socket) return socket.error().os_errno;
    tune_socket(socket->get(), address.family());
    int connected = 0;
    do connected = ::connect(socket->get(), address.get(), address.size);
    while (connected != 0 && errno == EINTR);
    if (connected != 0 && errno == EAGAIN && address.family() != AF_UNIX)
      return EADDRNOTAVAIL;  // no local port is left
    if (connected != 0 && errno != EINPROGRESS) return errno;
    const auto attempt = attempts_.insert(attempts_.end(), Attempt{std::move(*socket), address, {}});
    attempt->watch = loop_.watch(attempt->socket.get(), base::Readiness::writable, [weak = weak_from_this(), attempt] {
      if (const auto self = weak.lock()) self->answered(attempt);
    });
    return 0;
  }

  void answered(std::list<Attempt>::iterator attempt) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(attempt->socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    loop_.unwatch(std::exchange(attempt->watch, {}));
    if (error == 0) return finish(Dialed{std::move(attempt->socket), attempt->address});
    attempts_.erase(attempt);
    remember(error);
    try_next();
  }

  void remember(int error) {
    // A family that this machine does not have says less than what an address that it could reach answered.
    const bool no_such_network = error == ENETUNREACH || error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
    if (error_ == 0 || !no_such_network) error_ = error;
  }

  /// Zero: none.
  void set_timer(base::Duration after) {
    if (timer_) loop_.cancel(std::exchange(timer_, {}));
    if (after == base::Duration::zero()) return;
    timer_ = loop_.schedule(after, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->timer_ = {};
      self->try_next();
    });
  }

  void finish(Result<Dialed> result) {
    release();
    const auto self = shared_from_this();
    auto done = std::exchange(done_, nullptr);
    if (done) done(std::move(result));
  }

  void release() {
    set_timer(base::Duration::zero());
    for (Attempt& attempt : attempts_)
      if (attempt.watch) loop_.unwatch(attempt.watch);
    attempts_.clear();
  }

  base::Loop& loop_;
  const std::vector<SocketAddress> addresses_;
  std::size_t next_ = 0;
  std::list<Attempt> attempts_;  ///< under way; their iterators stay
  base::TimerId timer_;
  int error_ = 0;  ///< the most telling one so far
  base::Function<void(Result<Dialed>)> done_;
};

class Handle final : public PendingDial {
 public:
  explicit Handle(std::shared_ptr<Dialer> dialer) : dialer_(std::move(dialer)) {}
  ~Handle() override { dialer_->abandon(); }

 private:
  std::shared_ptr<Dialer> dialer_;
};

}  // namespace

std::vector<SocketAddress> interleaved(const std::vector<SocketAddress>& addresses) {
  std::vector<SocketAddress> first, others, order;
  for (const SocketAddress& address : addresses)
    (address.family() == addresses.front().family() ? first : others).push_back(address);
  for (std::size_t i = 0; i < first.size() || i < others.size(); ++i) {
    if (i < first.size()) order.push_back(first[i]);
    if (i < others.size()) order.push_back(others[i]);
  }
  return order;
}

std::unique_ptr<PendingDial> dial(base::Loop& loop, std::vector<SocketAddress> addresses,
                                  base::Function<void(Result<Dialed>)> done) {
  auto dialer = std::make_shared<Dialer>(loop, std::move(addresses), std::move(done));
  dialer->start();
  return std::make_unique<Handle>(std::move(dialer));
}

}  // namespace sandbar::net
