// SPDX-License-Identifier: Apache-2.0
#include "net/network_changes.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "net_test.h"

namespace sandbar::net::testing {
namespace {

using namespace std::chrono_literals;

/// Runs `body` in a child with a network of its own, which has nothing but `lo`, down. True where it says true.
template <class F>
bool in_own_network(F body) {
  const pid_t child = ::fork();
  if (child == 0) {
    // As an ordinary user: root in a namespace of its own.
    if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) ::_exit(2);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_NE(WEXITSTATUS(status), 2) << "no network namespace can be made here";
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool set_loopback(bool up) {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
  if (::ioctl(fd.get(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  return ::ioctl(fd.get(), SIOCSIFFLAGS, &request) == 0;
}

/// Lets the loop run for a time.
void run_for(AsioLoop& loop, base::Duration time) {
  loop.schedule(time, [&loop] { loop.stop(); });
  loop.run();
}

TEST(NetworkChanges, OneCallForABurst) {
  EXPECT_TRUE(in_own_network([] {
    AsioLoop loop;
    int calls = 0;
    const auto watched = watch_network(loop, [&] {
      ++calls;
      loop.stop();
    });
    const base::TimePoint start = loop.now();
    for (const bool up : {true, false, true})
      if (!set_loopback(up)) return false;
    const base::TimerId limit = loop.schedule(30s, [&] { loop.stop(); });
    loop.run();
    loop.cancel(limit);
    if (calls != 1 || loop.now() - start < kNetworkChangeBurst) return false;
    run_for(loop, kNetworkChangeBurst + 100ms);
    if (calls != 1) return false;  // of the burst nothing is left
    if (!set_loopback(false)) return false;
    loop.schedule(30s, [&] { loop.stop(); });
    loop.run();
    return calls == 2;
  }));
}

TEST(NetworkChanges, MayBeDestroyedInItsOwnCall) {
  EXPECT_TRUE(in_own_network([] {
    AsioLoop loop;
    std::unique_ptr<NetworkChanges> watched;
    watched = watch_network(loop, [&] {
      watched.reset();
      loop.stop();
    });
    if (!set_loopback(true)) return false;
    loop.schedule(30s, [&] { loop.stop(); });
    loop.run();
    return watched == nullptr;
  }));
}

TEST(NetworkChanges, NoNetlinkIsNoError) {
  EXPECT_TRUE(in_own_network([] {
    AsioLoop loop;
    int calls = 0;
    const rlimit none{0, 0};
    if (!set_loopback(true)) return false;
    ::setrlimit(RLIMIT_NOFILE, &none);
    const auto watched = watch_network(loop, [&] { ++calls; });
    run_for(loop, 1ms);
    return watched != nullptr && calls == 0;
  }));
}

}  // namespace
}  // namespace sandbar::net::testing
