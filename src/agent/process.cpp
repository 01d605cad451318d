// SPDX-License-Identifier: Apache-2.0
#include "agent/process.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/thread_check.h"

namespace sandbar::agent {
namespace {

/// The leader's status without reaping it; nothing while it runs.
std::optional<wire::WaitProcess::Reply> peek_status(pid_t pid) {
  siginfo_t info{};
  wire::WaitProcess::Reply status;
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) < 0) {
    // Nobody else reaps our children; should it be so, the client is not left waiting.
    base::log_error("the status of process " + std::to_string(pid) + " is lost");
    status.code = 255;
    return status;
  }
  if (info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) {
    status.code = static_cast<std::uint32_t>(info.si_status);
  } else {
    status.signal = static_cast<std::uint32_t>(info.si_status);
    status.core_dumped = info.si_code == CLD_DUMPED;
  }
  return status;
}

}  // namespace

void ProcessChannels::reset(const Error& reason) {
  for (auto* channel : {&in, &out, &err}) {
    if (*channel) (*channel)->reset(reason);
    channel->reset();
  }
}

Process::Process(base::Loop& loop, Child child, ProcessChannels channels, Ended ended)
    : loop_(loop), child_(std::move(child)), ended_(std::move(ended)) {
  SANDBAR_ON_LOOP(loop_);
  start_streams(std::move(channels));
  exit_watch_ = loop_.watch(child_.pidfd(), base::Readiness::readable, [this] { on_exit(); });
}

Process::~Process() {
  if (exit_watch_) loop_.unwatch(*exit_watch_);
  if (timer_) loop_.cancel(*timer_);
}

void Process::start_streams(ProcessChannels channels) {
  auto finished = [this] { maybe_finish(); };
  if (channels.in) input_ = std::make_unique<InputPump>(loop_, std::move(child_.stdin_pipe), std::move(channels.in));
  if (channels.out)
    output_ = std::make_unique<OutputPump>(loop_, std::move(child_.stdout_pipe), std::move(channels.out), finished);
  if (channels.err)
    error_output_ =
        std::make_unique<OutputPump>(loop_, std::move(child_.stderr_pipe), std::move(channels.err), finished);
}

Result<void> Process::signal(int number) {
  const int error = child_.signal(number);
  if (error == 0 || error == ESRCH) return {};
  return os_error(error, "signal process group " + std::to_string(child_.pid()));
}

void Process::hang_up() {
  if (hung_up_ || child_.reaped()) return;
  hung_up_ = true;
  child_.signal(SIGHUP);
  child_.signal(SIGCONT);  // a stopped process would not see it
  arm(exited_ ? kHangUpRest : kHangUpGrace, [this] { kill(); });
}

void Process::kill() {
  if (child_.reaped()) return;
  hung_up_ = killed_ = true;
  child_.signal(SIGKILL);
  for (auto* pump : {output_.get(), error_output_.get()})
    if (pump != nullptr) pump->stop();
  maybe_finish();
}

void Process::on_exit() {
  const auto status = peek_status(child_.pid());
  if (!status) return;
  loop_.unwatch(*exit_watch_);
  exit_watch_.reset();
  status_ = *status;
  exited_ = true;
  if (hung_up_ && !killed_)
    arm(kHangUpRest, [this] { kill(); });
  else if (!hung_up_)
    arm(kDrainLimit, [this] { check_drained(); });
  maybe_finish();
}

void Process::check_drained() {
  // What was written before the exit is never late, however late we are: only what is not there now is.
  for (auto* pump : {output_.get(), error_output_.get()})
    if (pump != nullptr) pump->look();
  if (child_.reaped()) return;
  base::TimePoint last{};
  for (auto* pump : {output_.get(), error_output_.get()})
    if (pump != nullptr && !pump->over()) last = std::max(last, pump->last_activity());
  const base::Duration quiet = loop_.now() - last;
  if (quiet < kDrainLimit) {
    arm(kDrainLimit - quiet, [this] { check_drained(); });
    return;
  }
  for (auto* pump : {output_.get(), error_output_.get()})
    if (pump != nullptr) pump->stop();
  maybe_finish();
}

void Process::arm(base::Duration after, base::Task task) {
  if (timer_) loop_.cancel(*timer_);
  timer_ = loop_.schedule(after, [this, task = std::move(task)]() mutable {
    timer_.reset();
    auto running = std::move(task);  // it may arm the next one, which destroys this closure's owner
    running();
  });
}

void Process::maybe_finish() {
  const bool streams_over = (!output_ || output_->over()) && (!error_output_ || error_output_->over());
  if (child_.reaped() || !exited_ || !streams_over || (hung_up_ && !killed_)) return;
  if (timer_) loop_.cancel(*timer_);
  timer_.reset();
  child_.reap();  // a zombie: does not block
  input_.reset();
  // Posted: this runs inside a pump, and the owner destroys us.
  loop_.post([this, alive = std::weak_ptr(alive_)] {
    if (alive.lock()) std::exchange(ended_, nullptr)(status_);
  });
}

}  // namespace sandbar::agent
