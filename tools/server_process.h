// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include "agent/child.h"
#include "base/function.h"
#include "base/loop.h"
#include "base/unique_fd.h"

/// What a server changes in the process that it is.
namespace sandbar::tools {

/// /dev/null where descriptor 0, 1 or 2 is closed: otherwise the next socket would be somebody's stdout.
void fill_standard_descriptors();

/// Removes SANDBOX_TOKEN, also from what /proc/PID/environ shows.
void forget_token_in_environment();

/// umask 0 (modes of new files are the clients'), the soft limit of descriptors raised to the hard one. Returns what
/// children get back.
agent::ChildDefaults raise_limits();

/// True for the first process of a PID namespace: orphans become its children, and zombies if it does not reap them.
bool is_init();

struct StdioPair {
  base::UniqueFd in;
  base::UniqueFd out;
};
/// Takes stdin and stdout away for a transport. Descriptor 0 is then /dev/null and 1 is stderr, so that nothing that is
/// printed by mistake gets between the transport's bytes.
StdioPair take_stdio();

/// SIGTERM, SIGINT and SIGHUP (unless it was ignored, as under nohup) as events of a loop; SIGPIPE is ignored. With
/// `reloads`, SIGHUP does not stop but reload, as is usual for servers, also where it was ignored. Made before other
/// threads, which inherit the mask. The old mask comes back at its end, when the loop must still be there.
class StopSignals {
 public:
  explicit StopSignals(bool reloads = false);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Each of these at most once.
  void on_stop(base::Loop& loop, base::Function<void()> stop);
  /// SIGCHLD, where is_init().
  void on_child(base::Loop& loop, base::Function<void()> child);
  /// SIGHUP, where it reloads.
  void on_reload(base::Loop& loop, base::Function<void()> reload);

 private:
  struct Watched {
    sigset_t signals{};
    base::UniqueFd fd;
    base::Loop* loop = nullptr;
    base::WatchId watch;
  };
  static void watch(Watched& watched, base::Loop& loop, base::Function<void()> arrived);

  Watched stop_;
  Watched child_;
  Watched reload_;
  const bool reloads_;
  sigset_t old_mask_{};
};

}  // namespace sandbar::tools
