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

/// umask 0 (modes of new files are the clients'), the soft limit of descriptors raised to the hard one, no core, since
/// a token would be in it. Returns what children get back.
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

/// SIGTERM, SIGINT and SIGHUP (unless it was ignored, as under nohup) as events of a loop; SIGPIPE is ignored. Made
/// before other threads, which inherit the mask. The old mask comes back at its end, when the loop must still be there.
class StopSignals {
 public:
  /// A server that has something to read again takes SIGHUP for that, also where it was ignored.
  enum class HangUp { stops, reloads };
  explicit StopSignals(HangUp hang_up);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Each of these is called at most once.
  void on_stop(base::Loop& loop, base::Function<void()> stop);
  /// SIGHUP of HangUp::reloads; as often as it comes.
  void on_reload(base::Loop& loop, base::Function<void()> reload);
  /// SIGCHLD, where is_init().
  void on_child(base::Loop& loop, base::Function<void()> child);

 private:
  struct Watched {
    sigset_t signals{};
    base::UniqueFd fd;
    base::Loop* loop = nullptr;
    base::WatchId watch;
  };
  static void watch(Watched& watched, base::Loop& loop, base::Function<void()> arrived);

  Watched stop_;
  Watched reload_;
  Watched child_;
  const HangUp hang_up_;
  sigset_t old_mask_{};
};

}  // namespace sandbar::tools
