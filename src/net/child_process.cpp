// SPDX-License-Identifier: Apache-2.0
#include "net/child_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "net/fd_stream.h"
#include "net/shell.h"
#include "net/socket.h"

namespace sandbar::net {
namespace {

constexpr base::Duration kKillAfter = std::chrono::seconds(2);
/// The end of the output and the end of the process are two events; how long the second may take.
constexpr base::Duration kExplainTime = std::chrono::seconds(1);
constexpr int kForcedReapMs = 1000;

std::string describe(const siginfo_t& info) {
  if (info.si_code != CLD_EXITED) {
    const char* name = ::sigabbrev_np(info.si_status);
    return std::string("the command was ended by ") +
           (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(info.si_status));
  }
  std::string text = "the command ended with code " + std::to_string(info.si_status);
  if (info.si_status == 127) text += " (not found)";
  if (info.si_status == 126) text += " (not executable)";
  return text;
}

/// One child, from its spawn until it is reaped. It stays a zombie until the stream goes: as long as it is not reaped,
/// its process id, which is also its group's, cannot mean another process.
class Child : public std::enable_shared_from_this<Child> {
 public:
  Child(base::Loop& loop, pid_t pid, base::UniqueFd pidfd) : loop_(loop), pid_(pid), pidfd_(std::move(pidfd)) {}
  ~Child() {
    if (reaped_) return;
    // The loop was destroyed first, so nothing can be waited for any more; and it must not be called.
    ::kill(-pid_, SIGKILL);
    pollfd exit{pidfd_.get(), POLLIN, 0};
    ::poll(&exit, 1, kForcedReapMs);
    ::waitpid(pid_, nullptr, WNOHANG);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  void explain(base::Function<void(std::string)> explained) {
    explained_ = std::move(explained);
    const auto give = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->explain_now();
    };
    if (!watch_) watch_ = loop_.watch(pidfd_.get(), base::Readiness::readable, give);
    if (!timer_) timer_ = loop_.schedule(kExplainTime, give);
  }

  void terminate() {
    explained_ = nullptr;
    stop_waiting();
    siginfo_t info{};
    if (exited(info)) return reap();
    ::kill(-pid_, SIGTERM);
    // The loop keeps this alive until the child is reaped.
    watch_ = loop_.watch(pidfd_.get(), base::Readiness::readable, [self = shared_from_this()] {
      self->stop_waiting();
      self->reap();
    });
    timer_ = loop_.schedule(kKillAfter, [self = shared_from_this()] {
      self->timer_ = {};
      ::kill(-self->pid_, SIGKILL);
    });
  }

 private:
  bool exited(siginfo_t& info) const {
    return ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }
  void explain_now() {
    stop_waiting();
    siginfo_t info{};
    auto explained = std::exchange(explained_, nullptr);
    if (explained) explained(exited(info) ? describe(info) : "the command closed its output");
  }
  void stop_waiting() {
    if (watch_) loop_.unwatch(std::exchange(watch_, {}));
    if (timer_) loop_.cancel(std::exchange(timer_, {}));
  }
  void reap() {
    // What the child started and left behind has lost its purpose with the connection.
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, WNOHANG);
    reaped_ = true;
  }

  base::Loop& loop_;
  const pid_t pid_;
  base::UniqueFd pidfd_;
  bool reaped_ = false;
  base::WatchId watch_;
  base::TimerId timer_;
  base::Function<void(std::string)> explained_;
};

class ChildStream final : public FdStream {
 public:
  ChildStream(base::Loop& loop, base::UniqueFd in, base::UniqueFd out, std::shared_ptr<Child> child)
      : FdStream(loop, std::move(in), std::move(out), "pid " + std::to_string(child->pid())),
        child_(std::move(child)) {}
  ~ChildStream() override {
    close_both();
    child_->terminate();
  }
  void explain_end(base::Function<void(std::string)> explained) override { child_->explain(std::move(explained)); }

 private:
  std::shared_ptr<Child> child_;
};

}  // namespace

Result<std::unique_ptr<Stream>> spawn_command(base::Loop& loop, const std::string& command) {
  auto to_child = make_pipe();
  if (!to_child) return to_child.error();
  auto from_child = make_pipe();
  if (!from_child) return from_child.error();
  for (const int ours : {to_child->write.get(), from_child->read.get()})
    if (auto set = set_non_blocking(ours); !set) return set.error();
  pid_t pid = 0;
  const ShellCommand shell{command, to_child->read.get(), from_child->write.get(), -1, {}};
  if (const int failed = spawn_shell(shell, pid); failed != 0) return os_error(failed, "run /bin/sh");
  // Not <sys/pidfd.h>: in glibc 2.36 it lacks extern "C". The descriptor is close-on-exec by itself (pidfd_open(2)).
  base::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    const int failed = errno;
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return os_error(failed, "pidfd_open");
  }
  auto child = std::make_shared<Child>(loop, pid, std::move(pidfd));
  return std::unique_ptr<Stream>(
      std::make_unique<ChildStream>(loop, std::move(from_child->read), std::move(to_child->write), std::move(child)));
}

}  // namespace sandbar::net
