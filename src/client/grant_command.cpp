// SPDX-License-Identifier: Apache-2.0
#include "client/grant_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "base/unique_fd.h"
#include "net/shell.h"

namespace sandbar::client {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr const char* kOperation = "run the grant command";

Error failed(std::string why) { return make_error(Errc::disconnected, kOperation, std::move(why)); }

/// Its read end does not block.
Result<net::Pipe> make_pipe() {
  auto pipe = net::make_pipe();
  if (pipe && ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK) != 0) return os_error(errno, "pipe");
  return pipe;
}

/// 0 or an errno.
int spawn(const GrantCommand& command, int out, int err, pid_t& pid) {
  net::ShellCommand shell{command.command, -1, out, err, {}};
  shell.environment = {"SANDBAR_GRANT_KIND=" + std::string(grant_kind_name(command.kind)),
                       "SANDBAR_GRANT_TARGET=" + command.target};
  if (command.kind == GrantKind::port)
    shell.environment.push_back("SANDBAR_GRANT_PORT=" + std::to_string(command.port));
  return net::spawn_shell(shell, pid);
}

/// A command that runs. Its end kills it with its session's group and reaps it.
class Running {
 public:
  explicit Running(pid_t pid) : pid_(pid), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { end(); }

  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  /// Kills what is left, and gives the status of waitpid(2) of one that had ended by itself.
  int end() {
    if (pid_ <= 0) return status_;
    siginfo_t info{};
    // The leader stays a zombie until it is reaped: its number, which is its group's, cannot be another's.
    const bool was_over =
        ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
    ::kill(-pid_, SIGKILL);
    if (!was_over) ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status_;
  }

 private:
  pid_t pid_;
  base::UniqueFd pidfd_;
  int status_ = 0;
};

/// Reads of one turn: all that the largest pipe of an ordinary user holds (1 MiB, pipe(7)), and then the clock is
/// looked at: who writes as fast as we read must not keep us.
constexpr int kReads = 256;

/// What can be read now. False at the end of the stream.
bool drain(int fd, std::string& into, std::size_t most, bool keep_end) {
  std::array<char, 4096> bytes{};
  for (int i = 0; i < kReads; ++i) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    into.append(bytes.data(), static_cast<std::size_t>(got));
    if (into.size() <= most) continue;
    if (!keep_end) return true;  // too much: the caller sees it by the size
    into.erase(0, into.size() - most);
  }
  return true;
}

struct Said {
  std::string out;
  std::string err;
};

/// Until the command has ended. An Error: it has to be ended.
Result<void> listen(const Running& running, const net::Pipe& out, const net::Pipe& err, const GrantCommand& command,
                    const Cancellation& cancellation, Said& said) {
  const Clock::time_point deadline = Clock::now() + command.time_limit;
  bool is_over = false;
  bool out_open = true;
  bool err_open = true;
  while (!is_over) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
    if (cancellation.cancelled()) return make_error(Errc::cancelled, kOperation, "it is not wanted any more");
    if (left.count() <= 0)
      return make_error(Errc::timeout, kOperation,
                        "it did not end within " + std::to_string(command.time_limit.count() / 1000) + " s");
    std::array<pollfd, 4> fds{pollfd{out_open ? out.read.get() : -1, POLLIN, 0},
                              pollfd{err_open ? err.read.get() : -1, POLLIN, 0}, pollfd{running.pidfd(), POLLIN, 0},
                              pollfd{cancellation.fd(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), static_cast<int>(left.count())) < 0 && errno != EINTR)
      return os_error(errno, kOperation);
    is_over = (fds[2].revents & POLLIN) != 0;  // looked at before the pipes: all that it wrote is in them
    out_open = out_open && drain(out.read.get(), said.out, wire::kMaxGrantAnswer, false);
    err_open = err_open && drain(err.read.get(), said.err, kMaxCommandComplaint, true);
    if (said.out.size() > wire::kMaxGrantAnswer) return failed("it printed more than 64 KiB");
  }
  return {};
}

std::string ending(int status) {
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    return "it ended with code " + std::to_string(code) + (code == 127 ? " (not found)" : "");
  }
  const char* name = ::sigabbrev_np(WTERMSIG(status));
  return "it was ended by " + (name != nullptr ? "SIG" + std::string(name) : "a signal");
}

/// The end of its standard error, on one line.
std::string complaint(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line.empty() ? "" : ": " + base::printable(line);
}

}  // namespace

Result<wire::GrantAnswer> run_grant_command(const GrantCommand& command, const Cancellation& cancellation) {
  auto out = make_pipe();
  auto err = make_pipe();
  if (!out || !err) return os_error((out ? err : out).error().os_errno, kOperation);
  pid_t pid = 0;
  if (const int error = spawn(command, out->write.get(), err->write.get(), pid); error != 0)
    return os_error(error, kOperation);
  Running running(pid);
  if (running.pidfd() < 0) return os_error(errno, kOperation);
  out->write.reset();
  err->write.reset();
  Said said;
  if (auto heard = listen(running, *out, *err, command, cancellation, said); !heard) {
    Error error = std::move(heard).error();
    if (error.code == Errc::timeout) error.detail += complaint(said.err);
    return error;
  }
  const int status = running.end();
  if (status != 0) return failed(ending(status) + complaint(said.err));
  auto answer = wire::decode_grant_answer(said.out);
  if (!answer)
    return failed(R"(it did not print {"url":"...","token":"...","expires_at":...}: )" + answer.error().detail);
  return answer;
}

}  // namespace sandbar::client
