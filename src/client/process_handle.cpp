// SPDX-License-Identifier: Apache-2.0
#include "client/process_handle.h"

#include <csignal>
#include <utility>

#include "base/text.h"
#include "client/client_core.h"
#include "client/process_state.h"
#include "wire/limits.h"

namespace sandbar::client {
namespace {

constexpr std::size_t kIdBytes = 16;
const char* const kSpawn = "start the process";

bool has_zero(const std::string& text) { return text.find('\0') != std::string::npos; }

/// Refused here what no agent could accept, so that it costs no connection.
Result<void> check(const ProcessOptions& options) {
  if (options.argv.empty() || options.argv[0].empty()) return make_error(Errc::invalid, kSpawn, "no command was given");
  if (options.argv.size() > wire::kMaxArray || options.environment.size() > wire::kMaxArray)
    return make_error(Errc::limit, kSpawn, "more than 8192 arguments or environment variables");
  for (const auto& argument : options.argv)
    if (has_zero(argument)) return make_error(Errc::invalid, kSpawn, "an argument holds a zero byte");
  for (const auto& variable : options.environment) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0 || has_zero(variable))
      return make_error(Errc::invalid, kSpawn,
                        "the environment entry \"" + base::printable(variable) + "\" is not NAME=VALUE");
  }
  if (has_zero(options.directory) || options.directory.size() >= wire::kMaxPath)
    return make_error(Errc::invalid, kSpawn, "the working directory is longer than 4095 bytes or holds a zero byte");
  return {};
}

/// The wire names no operation: of a spawn, Errc::os is the program's own (the directory's is Errc::invalid).
Error explained(const Error& error, const std::string& command) {
  if (error.code == Errc::os) return os_error(error.os_errno, "exec", base::printable(command));
  return make_error(error.code, kSpawn, error.detail);
}

}  // namespace

Result<std::unique_ptr<ProcessHandle>> ProcessHandle::spawn(const std::shared_ptr<ClientCore>& core,
                                                            ProcessOptions options) {
  if (auto checked = check(options); !checked) return std::move(checked).error();
  const std::string command = options.argv[0];
  wire::Spawn spawn;
  spawn.id = base::hex(base::random_bytes(kIdBytes));
  spawn.argv = std::move(options.argv);
  spawn.env = std::move(options.environment);
  spawn.cwd = options.directory.empty() ? core->target().directory : std::move(options.directory);
  auto state = std::make_shared<ProcessState>(core->state(), spawn.id, std::move(options.standard_output),
                                              std::move(options.standard_error));
  auto handle = std::make_unique<ProcessHandle>(core, state, spawn.id);
  auto pid = core->await<std::uint32_t>([state, spawn = std::move(spawn), has_input = options.has_input,
                                         timeout = core->request_timeout()](base::OneShot<std::uint32_t> done) mutable {
    state->start(std::move(spawn), has_input, timeout, std::move(done));
  });
  state.reset();
  if (!pid) return explained(pid.error(), command);
  handle->pid_ = *pid;
  return handle;
}

ProcessHandle::ProcessHandle(std::shared_ptr<ClientCore> core, std::shared_ptr<ProcessState> state, std::string id)
    : core_(std::move(core)), state_(std::move(state)), id_(std::move(id)) {}

ProcessHandle::~ProcessHandle() {
  // When this returns the sinks are not called any more. The state belongs to the loop's thread, and dies there.
  on_loop([state = std::move(state_)] { state->abandon(); });
}

void ProcessHandle::on_loop(base::Task task) {
  if (core_->on_own_thread()) return task();
  static_cast<void>(core_->await<void>([task = std::move(task)](base::OneShot<void> done) mutable {
    std::exchange(task, nullptr)();
    done({});
  }));
}

Result<void> ProcessHandle::write(std::string bytes) {
  if (core_->on_own_thread()) return ClientCore::own_thread_error();
  bool must_wake = false;
  auto pushed = state_->input.push(std::move(bytes), must_wake);
  if (must_wake) wake_feed();
  return pushed;
}

Result<void> ProcessHandle::close_input() {
  bool must_wake = false;
  auto ended = state_->input.end(must_wake);
  if (must_wake) wake_feed();
  return ended;
}

void ProcessHandle::wake_feed() {
  core_->post([state = state_] { state->feed(); });
}

void ProcessHandle::close_output(OutputStream stream) {
  on_loop([state = state_, stream] { state->close_output(stream); });
}

Result<void> ProcessHandle::signal(int number) {
  if (number <= 0 || number > 64)
    return make_error(Errc::invalid, "signal the process", "there is no signal " + std::to_string(number));
  return core_->await<void>(
      [state = state_.get(), number, timeout = core_->request_timeout()](base::OneShot<void> done) {
        state->signal(static_cast<std::uint32_t>(number), timeout, std::move(done));
      });
}

bool ProcessHandle::ended() const { return state_->ended; }

Result<ExitStatus> ProcessHandle::wait() {
  if (core_->on_own_thread()) return ClientCore::own_thread_error();
  return state_->outcome.wait();
}

}  // namespace sandbar::client
