// SPDX-License-Identifier: Apache-2.0
#include "server_process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/assert.h"
#include "client/token.h"

namespace sandbar::tools {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void fill_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);  // the lowest free number: this one
}

agent::ChildDefaults raise_limits() {
  agent::ChildDefaults before;
  before.umask = ::umask(0);
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) == 0) before.core = limit;
  client::keep_tokens_out_of_cores();
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return before;
  before.nofile = limit;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

bool is_init() { return ::getpid() == 1; }

StdioPair take_stdio() {
  StdioPair pair;
  pair.in.reset(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  pair.out.reset(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return pair;
}

StopSignals::StopSignals(HangUp hang_up) : hang_up_(hang_up) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);  // ignored (inherited), the kernel would throw exit statuses away
  sigemptyset(&stop_.signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&stop_.signals, signal);
  sigemptyset(&reload_.signals);
  if (hang_up == HangUp::reloads) {
    ::signal(SIGHUP, SIG_DFL);  // ignored (inherited from nohup), it would not arrive
    sigaddset(&reload_.signals, SIGHUP);
  } else if (!is_ignored(SIGHUP)) {
    sigaddset(&stop_.signals, SIGHUP);
  }
  sigemptyset(&child_.signals);
  sigaddset(&child_.signals, SIGCHLD);
  sigset_t all = stop_.signals;
  if (hang_up == HangUp::reloads) sigaddset(&all, SIGHUP);
  if (is_init()) sigaddset(&all, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &all, &old_mask_);
}

StopSignals::~StopSignals() {
  for (Watched* watched : {&stop_, &reload_, &child_})
    if (watched->loop != nullptr) watched->loop->unwatch(watched->watch);
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void StopSignals::watch(Watched& watched, base::Loop& loop, base::Function<void()> arrived) {
  watched.fd.reset(::signalfd(-1, &watched.signals, SFD_CLOEXEC | SFD_NONBLOCK));
  SANDBAR_ASSERT(watched.fd);
  watched.loop = &loop;
  watched.watch = loop.watch(watched.fd.get(), base::Readiness::readable,
                             [fd = watched.fd.get(), arrived = std::move(arrived)]() mutable {
                               signalfd_siginfo info{};
                               if (::read(fd, &info, sizeof info) == sizeof info) arrived();
                             });
}

void StopSignals::on_stop(base::Loop& loop, base::Function<void()> stop) { watch(stop_, loop, std::move(stop)); }

void StopSignals::on_reload(base::Loop& loop, base::Function<void()> reload) {
  if (hang_up_ == HangUp::reloads) watch(reload_, loop, std::move(reload));
}

void StopSignals::on_child(base::Loop& loop, base::Function<void()> child) {
  if (is_init()) watch(child_, loop, std::move(child));
}

}  // namespace sandbar::tools
