// SPDX-License-Identifier: Apache-2.0
#include "net/resolve.h"

#include <netdb.h>
#include <signal.h>

#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

namespace sandbar::net {
namespace {

using Addresses = Result<std::vector<SocketAddress>>;

/// What the lookup's thread and the loop share. The thread may outlive the loop, so it reaches it only under the mutex
/// and only while somebody waits.
struct Shared {
  std::mutex mutex;
  base::Loop* loop = nullptr;  ///< null: nobody waits any more
  base::Function<void(Addresses)> done;
};

class Pending final : public PendingResolve {
 public:
  explicit Pending(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  ~Pending() override {
    base::Function<void(Addresses)> dropped;  // destroyed after the lock is released
    std::lock_guard lock(shared_->mutex);
    shared_->loop = nullptr;
    std::swap(dropped, shared_->done);
  }

 private:
  std::shared_ptr<Shared> shared_;
};

void deliver(const std::shared_ptr<Shared>& shared, Addresses found) {
  std::lock_guard lock(shared->mutex);
  if (shared->loop == nullptr) return;
  shared->loop->post([weak = std::weak_ptr(shared), found = std::move(found)]() mutable {
    const auto alive = weak.lock();
    if (!alive) return;
    base::Function<void(Addresses)> done;
    {
      std::lock_guard inner(alive->mutex);
      std::swap(done, alive->done);
    }
    if (done) done(std::move(found));
  });
}

/// Signals are for the threads that know of them: a new thread inherits a mask with all of them blocked.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Result<std::vector<SocketAddress>> system_lookup(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  // Not AI_ADDRCONFIG: it does not count loopback addresses, and trying one that is unreachable costs nothing.
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list); failed != 0)
    return make_error(Errc::disconnected, "look up " + host,
                      "the name \"" + host + "\" cannot be resolved: " + ::gai_strerror(failed));
  std::vector<SocketAddress> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    if (entry->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    found.push_back(address);
  }
  ::freeaddrinfo(list);
  if (found.empty()) return make_error(Errc::disconnected, "look up " + host, "the name has no address");
  return found;
}

std::unique_ptr<PendingResolve> resolve(base::Loop& loop, const std::string& host, std::uint16_t port,
                                        base::Function<void(Result<std::vector<SocketAddress>>)> done, Lookup lookup) {
  auto shared = std::make_shared<Shared>();
  shared->loop = &loop;
  shared->done = std::move(done);
  if (auto known = literal_addresses(host, port); !known.empty()) {
    deliver(shared, std::move(known));
    return std::make_unique<Pending>(std::move(shared));
  }
  try {
    const SignalsBlocked blocked;
    std::thread([shared, host, port, lookup = std::move(lookup)] { deliver(shared, lookup(host, port)); }).detach();
  } catch (const std::system_error& failure) {
    deliver(shared, os_error(failure.code().value(), "look up " + host, "no thread for it"));
  }
  return std::make_unique<Pending>(std::move(shared));
}

}  // namespace sandbar::net
