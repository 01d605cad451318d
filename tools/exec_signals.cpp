// SPDX-License-Identifier: Apache-2.0
#include "exec_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/assert.h"

namespace sandbar::tools {
namespace {

constexpr std::array kForwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/// A blocked signal is queued even where it is ignored (kernel/signal.c, sig_ignored), so those are left out.
bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
         action.sa_handler == SIG_IGN;
}

/// As if we had never blocked it: our parent sees a program that this signal ended.
void die_of(int number) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(number, &action, nullptr);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(number);
}

}  // namespace

SignalForwarder::SignalForwarder() {
  sigemptyset(&signals_);
  for (const int number : kForwarded)
    if (!is_ignored(number)) sigaddset(&signals_, number);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &old_mask_);
  signal_fd_.reset(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
  wake_.reset(::eventfd(0, EFD_CLOEXEC));
  SANDBAR_ASSERT(signal_fd_ && wake_);
  thread_ = std::thread([this] { run(); });
}

SignalForwarder::~SignalForwarder() {
  const std::uint64_t one = 1;
  SANDBAR_ASSERT(::write(wake_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void SignalForwarder::starting() {
  const std::lock_guard lock(mutex_);
  stage_ = Stage::starting;
}

void SignalForwarder::running(Process& process) {
  const std::lock_guard lock(mutex_);
  stage_ = Stage::running;
  process_ = &process;
  for (const int number : waiting_) send(number);
  waiting_.clear();
}

void SignalForwarder::over() {
  const std::lock_guard lock(mutex_);
  stage_ = Stage::idle;
  process_ = nullptr;
  if (!waiting_.empty()) die_of(waiting_.front());
}

void SignalForwarder::run() {
  for (;;) {
    std::array<pollfd, 2> fds{pollfd{signal_fd_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0) {
      SANDBAR_ASSERT(errno == EINTR);
      continue;
    }
    if (fds[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) handle(static_cast<int>(info.ssi_signo));
  }
}

void SignalForwarder::handle(int number) {
  const std::lock_guard lock(mutex_);
  switch (stage_) {
    case Stage::idle:
      return die_of(number);
    case Stage::starting:
      waiting_.push_back(number);
      return;
    case Stage::running:
      return send(number);
  }
}

/// A process that has ended gets none, while we may still be writing its output to somebody who does not read.
void SignalForwarder::send(int number) {
  if (process_->ended()) return die_of(number);
  // An error is a lost connection, which wait() reports.
  static_cast<void>(process_->signal(number));
}

}  // namespace sandbar::tools
