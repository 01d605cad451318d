// SPDX-License-Identifier: Apache-2.0
#include "agent/child.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <unordered_map>

#include "base/text.h"

/// glibc's clone(3) by its other name. Sanitizers intercept "clone", and take it for a fork(2): what they then change
/// for the child they would change for us, whose memory it shares.
extern "C" int __clone(int (*run)(void*), void* stack, int flags, void* argument, ...) noexcept;  // NOLINT

namespace sandbar::agent {
namespace {

// Room for both ends of a pipe beyond the default 64 KiB, so that a wakeup moves more. Not the allowed 1 MiB: an
// ordinary user's pipes count against pipe-user-pages-soft (64 MiB, pipe(7)), and beyond it every new pipe of that
// user, also those of the programs that run here, shrinks to two pages.
constexpr int kPipeBytes = 256 * 1024;
constexpr std::size_t kChildStack = 64 * 1024;

enum class Step { none, session, directory, descriptors, exec };

/// All that the child touches, made before it exists: it shares our memory (CLONE_VM), so it must neither allocate nor
/// lock, and no sanitizer may track what it does on its own stack.
struct Launch {
  std::array<int, 3> stdio{-1, -1, -1};
  int cwd = -1;
  mode_t umask = 022;
  const rlimit* nofile = nullptr;
  const rlimit* core = nullptr;
  std::vector<const char*> candidates;  ///< paths to try, in order
  std::vector<char*> argv;
  std::vector<char*> shell_argv;  ///< for a script without "#!": {"sh", candidate, argv[1]...}
  std::vector<char*> env;
  Step failed = Step::none;  ///< the child's report
  int error = 0;
};

__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) int report(Launch& launch, Step step,
                                                                                    int error) {
  launch.failed = step;
  launch.error = error;
  return 127;
}

/// As execvp(3): goes on along PATH after a name that is not there or not executable, but remembers the latter.
__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) int exec_candidates(Launch& launch) {
  int error = ENOENT;
  for (const char* path : launch.candidates) {
    ::execve(path, launch.argv.data(), launch.env.data());
    if (errno == ENOEXEC) {
      launch.shell_argv[1] = const_cast<char*>(path);
      ::execve("/bin/sh", launch.shell_argv.data(), launch.env.data());
    }
    if (errno == EACCES)
      error = EACCES;
    else if (errno != ENOENT && errno != ENOTDIR) {
      error = errno;
      break;
    }
  }
  return report(launch, Step::exec, error);
}

__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) int child_main(void* argument) {
  Launch& launch = *static_cast<Launch*>(argument);
  // Raw calls where a sanitizer would intercept, and so record, the libc function. A kernel_sigaction of zeros is
  // SIG_DFL; the handler table is the child's own (no CLONE_SIGHAND).
  const std::array<unsigned long, 4> default_action{};
  for (int signal = 1; signal < NSIG; ++signal) ::syscall(SYS_rt_sigaction, signal, &default_action, nullptr, 8);
  // A session, not only a group: the child must not reach a terminal that the agent was started from.
  if (::syscall(SYS_setsid) < 0) return report(launch, Step::session, errno);
  for (int fd = 0; fd < 3; ++fd)
    if (::syscall(SYS_dup3, launch.stdio[fd], fd, 0) < 0) return report(launch, Step::descriptors, errno);
  if (::syscall(SYS_fchdir, launch.cwd) < 0) return report(launch, Step::directory, errno);
  ::syscall(SYS_umask, launch.umask);
  if (launch.nofile != nullptr) ::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, launch.nofile, nullptr);
  if (launch.core != nullptr) ::syscall(SYS_prlimit64, 0, RLIMIT_CORE, launch.core, nullptr);
  // All of ours are CLOEXEC; this is for what the agent inherited. Kernels before 5.9 do not have it.
  ::syscall(SYS_close_range, 3U, ~0U, 0U);
  const unsigned long no_signals = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, nullptr, 8);
  return exec_candidates(launch);
}

/// The child's stack; unmapped when it has executed or died.
class ChildStack {
 public:
  ChildStack()
      : base_(::mmap(nullptr, kChildStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {}
  ~ChildStack() {
    if (base_ != MAP_FAILED) ::munmap(base_, kChildStack);
  }
  ChildStack(const ChildStack&) = delete;
  ChildStack& operator=(const ChildStack&) = delete;
  /// Its upper end (stacks grow down); null where there is no memory.
  [[nodiscard]] void* top() const { return base_ == MAP_FAILED ? nullptr : static_cast<char*>(base_) + kChildStack; }

 private:
  void* base_;
};

/// vfork-like: no copy of the agent's page tables, and this thread stands still until the child has executed or
/// failed, so that its report is simply there. Signals are blocked meanwhile: a handler must not run in the child,
/// on our memory.
pid_t clone_child(Launch& launch, int* pidfd) {
  ChildStack stack;
  if (stack.top() == nullptr) return -1;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const pid_t pid = ::__clone(child_main, stack.top(), CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &launch, pidfd);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  errno = error;
  return pid;
}

struct Pipe {
  base::UniqueFd ours;
  base::UniqueFd childs;
};

/// Not Errc::os, which is for the program alone.
Error refused(int error, const std::string& what) {
  return make_error(Errc::limit, "start a process", os_error(error, what).message());
}

/// A pipe or /dev/null for descriptor `fd` of the child.
Result<Pipe> make_stream(int fd, bool piped) {
  Pipe pipe;
  if (!piped) {
    pipe.childs.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!pipe.childs) return refused(errno, "open /dev/null");
    return pipe;
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) < 0) return refused(errno, "make a pipe");
  base::UniqueFd read_end(ends[0]);
  base::UniqueFd write_end(ends[1]);
  const bool is_input = fd == STDIN_FILENO;
  pipe.ours = std::move(is_input ? write_end : read_end);
  pipe.childs = std::move(is_input ? read_end : write_end);
  ::fcntl(pipe.ours.get(), F_SETPIPE_SZ, kPipeBytes);
  ::fcntl(pipe.ours.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

Error bad_directory(const base::Bytes& cwd, const Error& why) {
  return make_error(Errc::invalid, "change to the directory " + base::printable(cwd.empty() ? "/" : cwd),
                    why.os_errno != 0 ? os_error(why.os_errno, "").message() : why.detail);
}

Result<base::UniqueFd> open_cwd(const ChildPlan& plan) {
  if (plan.cwd.find('\0') != std::string::npos)
    return bad_directory(plan.cwd, make_error(Errc::invalid, "", "it has a zero byte"));
  auto fd = plan.root->resolve_directory(plan.cwd);
  if (!fd) return bad_directory(plan.cwd, fd.error());
  return fd;
}

std::string_view path_variable(const std::vector<base::Bytes>& env) {
  for (const auto& entry : env)
    if (entry.starts_with("PATH=")) return std::string_view(entry).substr(5);
  return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

/// The paths to try for a program's name.
std::vector<std::string> candidate_paths(const std::string& program, const std::vector<base::Bytes>& env) {
  if (program.empty()) return {};
  if (program.find('/') != std::string::npos) return {program};
  std::vector<std::string> paths;
  std::string_view rest = path_variable(env);
  for (;;) {
    const auto colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    // An empty element is the working directory (POSIX, "PATH").
    paths.push_back((folder.empty() ? std::string(".") : std::string(folder)) + "/" + program);
    if (colon == std::string_view::npos) return paths;
    rest.remove_prefix(colon + 1);
  }
}

std::vector<char*> pointers(const std::vector<base::Bytes>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

Error launch_error(const Launch& launch, const ChildPlan& plan) {
  switch (launch.failed) {
    case Step::directory:
      return bad_directory(plan.cwd, os_error(launch.error, ""));
    case Step::exec:
      return os_error(launch.error, "exec", base::printable(plan.argv[0]));
    default:
      return refused(launch.error, "prepare it");
  }
}

Result<void> check_argv(const std::vector<base::Bytes>& argv) {
  if (argv.empty()) return make_error(Errc::invalid, "spawn", "argv is empty");
  for (const auto& argument : argv)
    if (argument.find('\0') != std::string::npos)
      return make_error(Errc::invalid, "spawn", "an argument has a zero byte");
  return {};
}

Launch make_launch(const ChildPlan& plan, const std::vector<std::string>& paths) {
  Launch launch;
  launch.umask = plan.defaults.umask;
  launch.nofile = plan.defaults.nofile ? &*plan.defaults.nofile : nullptr;
  launch.core = plan.defaults.core ? &*plan.defaults.core : nullptr;
  for (const auto& path : paths) launch.candidates.push_back(path.c_str());
  launch.argv = pointers(plan.argv);
  launch.env = pointers(plan.env);
  static char shell[] = "sh";
  launch.shell_argv = {shell, nullptr};
  launch.shell_argv.insert(launch.shell_argv.end(), launch.argv.begin() + 1, launch.argv.end());
  return launch;
}

}  // namespace

Child::Child(Child&& other) noexcept
    : stdin_pipe(std::move(other.stdin_pipe)),
      stdout_pipe(std::move(other.stdout_pipe)),
      stderr_pipe(std::move(other.stderr_pipe)),
      pidfd_(std::move(other.pidfd_)),
      pid_(std::exchange(other.pid_, -1)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(stdin_pipe, other.stdin_pipe);
  std::swap(stdout_pipe, other.stdout_pipe);
  std::swap(stderr_pipe, other.stderr_pipe);
  std::swap(pidfd_, other.pidfd_);
  std::swap(pid_, other.pid_);
  return *this;
}

Child::~Child() {
  if (reaped()) return;
  signal(SIGKILL);
  // One in an uninterruptible sleep would hold us up. Init has it after us.
  ::waitpid(pid_, nullptr, WNOHANG);
}

int Child::signal(int number) const {
  if (reaped()) return ESRCH;
  return ::kill(-pid_, number) == 0 ? 0 : errno;
}

void Child::reap() {
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

Result<std::vector<base::Bytes>> merged_environment(const std::vector<base::Bytes>& added) {
  std::vector<base::Bytes> env;
  std::unordered_map<std::string, std::size_t> places;
  auto put = [&](std::string_view entry) {
    std::string name(entry.substr(0, entry.find('=')));
    const auto [place, is_new] = places.emplace(std::move(name), env.size());
    if (is_new)
      env.emplace_back(entry);
    else
      env[place->second] = entry;
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("SANDBOX_TOKEN=") || text.starts_with("PWD=") || text.starts_with("OLDPWD=")) continue;
    put(text);
  }
  for (const auto& entry : added) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || equals == 0 || entry.find('\0') != std::string::npos)
      return make_error(Errc::invalid, "spawn", "an environment entry is not NAME=value");
    put(entry);
  }
  return env;
}

Result<Child> start_child(const ChildPlan& plan) {
  if (auto checked = check_argv(plan.argv); !checked) return std::move(checked).error();
  const std::vector<std::string> paths = candidate_paths(plan.argv[0], plan.env);
  Launch launch = make_launch(plan, paths);

  std::array<Pipe, 3> streams;
  const std::array<bool, 3> piped{plan.pipe_stdin, plan.pipe_stdout, plan.pipe_stderr};
  for (int fd = 0; fd < 3; ++fd) {
    auto stream = make_stream(fd, piped[fd]);
    if (!stream) return std::move(stream).error();
    streams[fd] = std::move(*stream);
    launch.stdio[fd] = streams[fd].childs.get();
  }
  auto cwd = open_cwd(plan);
  if (!cwd) return std::move(cwd).error();
  launch.cwd = cwd->get();

  int pidfd = -1;
  const pid_t pid = clone_child(launch, &pidfd);
  if (pid < 0) return refused(errno, "clone");
  Child child(pid, base::UniqueFd(pidfd));
  if (launch.failed != Step::none) {
    child.reap();
    return launch_error(launch, plan);
  }
  child.stdin_pipe = std::move(streams[0].ours);
  child.stdout_pipe = std::move(streams[1].ours);
  child.stderr_pipe = std::move(streams[2].ours);
  return child;
}

}  // namespace sandbar::agent
