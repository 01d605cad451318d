// SPDX-License-Identifier: Apache-2.0
#include "net/shell.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/environment.h"

namespace sandbar::net {

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return os_error(errno, "pipe");
  const base::UniqueFd low_read(ends[0]);
  const base::UniqueFd low_write(ends[1]);
  Pipe pipe;
  pipe.read.reset(::fcntl(ends[0], F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  pipe.write.reset(::fcntl(ends[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!pipe.read || !pipe.write) return os_error(errno, "pipe");
  return pipe;
}

// posix_spawn and not fork: other threads run, and theirs may hold any lock.
int spawn_shell(const ShellCommand& command, pid_t& pid) {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_init(&actions);
  sigset_t none;
  sigset_t defaults;
  ::sigemptyset(&none);
  ::sigemptyset(&defaults);
  // Our programs ignore SIGPIPE, which a child would inherit.
  ::sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (command.in < 0)
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  else
    ::posix_spawn_file_actions_adddup2(&actions, command.in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, command.out, STDOUT_FILENO);
  if (command.err >= 0) ::posix_spawn_file_actions_adddup2(&actions, command.err, STDERR_FILENO);
  // What whoever started us left open is none of the command's business, and would live as long as it does.
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  std::string shell = "sh";
  std::string option = "-c";
  std::string text = command.command;
  const std::array<char*, 4> argv{shell.data(), option.data(), text.data(), nullptr};
  const base::ChildEnvironment environment(command.environment);
  const int failed = ::posix_spawn(&pid, "/bin/sh", &actions, &attributes, argv.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  return failed;
}

}  // namespace sandbar::net
