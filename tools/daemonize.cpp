// SPDX-License-Identifier: Apache-2.0
#include "daemonize.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ostream>

#include "cli/output.h"

namespace sandbar::tools {
namespace {

constexpr char kReady = '0';
constexpr char kFailed = '1';

volatile std::sig_atomic_t last_signal = 0;
volatile pid_t background_process = 0;

extern "C" void pass_on(int signal) {
  last_signal = signal;
  const int saved = errno;
  if (background_process > 0) ::kill(background_process, SIGTERM);
  errno = saved;
}

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (!is_to_be_ignored(signal)) ::sigaction(signal, &action, nullptr);
}

std::string read_report(int fd) {
  std::string report;
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return report;
    report.append(bytes.data(), static_cast<std::size_t>(got));
    if (report.front() == kReady) return report;
  }
}

/// How a child that said nothing ended.
std::string ending(int status) {
  if (WIFSIGNALED(status)) return std::string("by signal ") + ::strsignal(WTERMSIG(status));
  return "with code " + std::to_string(WEXITSTATUS(status));
}

[[noreturn]] void end_by(int signal) {
  install(SIG_DFL);
  ::raise(signal);
  ::_exit(128 + signal);
}

int wait_for_report(const std::string& program, cli::Io io, int fd) {
  const std::string report = read_report(fd);
  if (!report.empty() && report.front() == kReady && last_signal == 0) return 0;
  int status = 0;
  while (::waitpid(background_process, &status, 0) < 0 && errno == EINTR) {
  }
  if (last_signal != 0) end_by(last_signal);
  if (report.empty()) {
    cli::print_error(io.err, program, "the background process ended without a word, " + ending(status));
  } else {
    cli::print_error(io.err, program, report.substr(1));
  }
  return 1;
}

void become_background(int keep) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  // `keep` becomes 3, all above goes.
  if (keep != 3) ::dup2(keep, 3);
  ::fcntl(3, F_SETFD, FD_CLOEXEC);
  ::close_range(4, ~0U, 0);
}

bool write_all(int fd, const std::string& bytes) {
  // A report is one short write; who waits reads it at once.
  return ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

void open_standard_streams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd >= 0) ::close(fd);
}

bool is_to_be_ignored(int signal) {
  struct sigaction now {};
  return signal == SIGHUP && ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

bool StartReport::ready() {
  if (!pipe_) return true;
  if (!write_all(pipe_.get(), std::string(1, kReady))) return false;
  pipe_.reset();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  ::close(null);
  // A file system that we were started in can be unmounted.
  return ::chdir("/") == 0;
}

void StartReport::failed(const std::string& message) {
  if (!pipe_) return cli::print_error(io_.err, program_, message);
  write_all(pipe_.get(), kFailed + message);
  pipe_.reset();
}

Background go_to_background(const std::string& program, cli::Io io) {
  Background result;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    cli::print_error(io.err, program, os_error(errno, "start in the background"));
    result.exit_code = 1;
    return result;
  }
  base::UniqueFd read_end(ends[0]);
  base::UniqueFd write_end(ends[1]);
  io.out << std::flush;
  io.err << std::flush;
  // Held back until each side has its handlers: a signal in between must not end the parent alone.
  const sigset_t held = ending_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &held, &before);
  const pid_t child = ::fork();
  if (child == 0) {
    become_background(write_end.release());
    [[maybe_unused]] const int gone = read_end.release();  // its number may be the report's now
    result.in_child = true;
    result.pipe = base::UniqueFd(3);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return result;
  }
  if (child < 0) {
    cli::print_error(io.err, program, os_error(errno, "start in the background"));
    result.exit_code = 1;
    return result;
  }
  write_end.reset();
  background_process = child;
  install(pass_on);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  result.exit_code = wait_for_report(program, io, read_end.get());
  install(SIG_DFL);
  return result;
}

}  // namespace sandbar::tools
