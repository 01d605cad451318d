// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "agent/child.h"
#include "agent/pump.h"
#include "base/function.h"
#include "base/loop.h"
#include "mux/channel.h"
#include "sandbar/result.h"
#include "wire/messages.h"

namespace sandbar::agent {

/// What a spawn's client opened for it; null is /dev/null.
struct ProcessChannels {
  std::shared_ptr<mux::Channel> in, out, err;

  /// All of them over, for one reason.
  void reset(const Error& reason);
};

/// After the exit of its leader a process' output is waited for so long since the last byte (or since its reader held
/// it up): a background child may keep the pipe open for ever. Long enough for a child that is just finishing.
constexpr base::Duration kDrainLimit = std::chrono::seconds(1);
/// From the SIGHUP for a lost client to SIGKILL; design.md gives programs time to write what they have.
constexpr base::Duration kHangUpGrace = std::chrono::seconds(10);
/// The same, but from the exit of a group's leader: the others of its group are asked no longer than this.
constexpr base::Duration kHangUpRest = std::chrono::seconds(1);

/// One running child with its streams, from its start until it is reaped. The leader stays a zombie until then, so
/// that its number, and with it the group's, cannot come to mean another process. On the loop's thread.
class Process {
 public:
  using Ended = base::Function<void(wire::WaitProcess::Reply)>;

  /// `ended` runs once, never inside a call: the leader has exited and its output is on the way or given up.
  Process(base::Loop& loop, Child child, ProcessChannels channels, Ended ended);
  /// Kills the group where it has not ended.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  /// To the whole group; one without members left is no error.
  Result<void> signal(int number);
  /// The client is gone: SIGHUP now, SIGKILL to what is left later.
  void hang_up();
  /// SIGKILL to the group now.
  void kill();

 private:
  void start_streams(ProcessChannels channels);
  void on_exit();
  void check_drained();
  void arm(base::Duration after, base::Task task);
  void maybe_finish();

  base::Loop& loop_;
  Child child_;
  Ended ended_;
  std::optional<base::WatchId> exit_watch_;
  std::unique_ptr<InputPump> input_;
  std::unique_ptr<OutputPump> output_;
  std::unique_ptr<OutputPump> error_output_;
  std::optional<base::TimerId> timer_;  ///< the drain limit, or the next step of a hang-up
  bool exited_ = false;
  bool hung_up_ = false;
  bool killed_ = false;
  wire::WaitProcess::Reply status_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  ///< for tasks that were posted
};

}  // namespace sandbar::agent
