// SPDX-License-Identifier: Apache-2.0
#include "sandbox_exec_main.h"

#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "cli/app.h"
#include "cli/output.h"
#include "client/grant_source.h"
#include "exec_plan.h"
#include "exec_signals.h"
#include "exec_streams.h"
#include "sandbar/client.h"

namespace sandbar::tools {
namespace {

constexpr const char* kProgram = "sandbox-exec";
constexpr int kFailed = 125;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;
constexpr int kSignalled = 128;

int fail(cli::Io io, std::string_view message) {
  cli::print_error(io.err, kProgram, message);
  return kFailed;
}

/// The messages of a command that did not start, and its code.
int not_started(cli::Io io, const Error& error, const ExecArguments& arguments, const ExecPlan& plan) {
  const std::string where = plan.target.address();
  if (error.code == Errc::os && error.operation == "exec") {
    const std::string command = base::printable(arguments.command.front());
    const bool is_missing = error.os_errno == ENOENT;
    const bool is_searched = arguments.command.front().find('/') == std::string::npos;
    fail(io,
         command + ": " + Error{Errc::os, error.os_errno, "", ""}.message() + " in the sandbox " + where +
             (is_missing && is_searched ? "; a name without / is searched in the PATH there (--env PATH=...)" : ""));
    return is_missing ? kNotFound : kNotExecutable;
  }
  std::string hint;
  if (error.detail.find("the directory") != std::string::npos) hint = "; choose another one by --cwd";
  return fail(io, error.message() + " in the sandbox " + where + hint);
}

int lost(cli::Io io, const Error& error, const ExecPlan& plan) {
  if (error.code == Errc::disconnected)
    return fail(io, "the connection to " + plan.target.address() + " was lost" +
                        (error.detail.empty() ? "" : " (" + error.detail + ")") +
                        "; how the command ended is not known");
  return fail(io, error.message() + " in the sandbox " + plan.target.address());
}

int code_of(const ExitStatus& status) { return status.signal != 0 ? kSignalled + status.signal : status.code; }

/// Hands the process to the threads that want to close one of its streams, which may be before spawn() has returned.
class ProcessSlot {
 public:
  void set(Process* process) {
    const std::lock_guard lock(mutex_);
    process_ = process;
    is_set_ = true;
    changed_.notify_all();
  }
  void close_output(OutputStream stream) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_set_; });
    if (process_ != nullptr) process_->close_output(stream);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
  Process* process_ = nullptr;
};

/// One command, from its start to its last byte.
class Execution {
 public:
  Execution(Client& client, const ExecArguments& arguments, const ExecPlan& plan, SignalForwarder& signals, cli::Io io)
      : client_(client),
        arguments_(arguments),
        plan_(plan),
        signals_(signals),
        io_(io),
        out_(STDOUT_FILENO, [this] { slot_.close_output(OutputStream::standard_output); }),
        err_(STDERR_FILENO, [this] { slot_.close_output(OutputStream::standard_error); }) {}

  int run() {
    signals_.starting();
    auto process = client_.spawn(options());
    slot_.set(process ? &*process : nullptr);
    if (!process) {
      signals_.over();
      return not_started(io_, process.error(), arguments_, plan_);
    }
    signals_.running(*process);
    StdinReader input(STDIN_FILENO, *process);
    const auto status = process->wait();
    const auto input_error = input.stop();
    const auto out_error = out_.finish();
    const auto err_error = err_.finish();
    signals_.over();
    for (const auto& error : {input_error, out_error, err_error})
      if (error) return fail(io_, error->message());
    return status ? code_of(*status) : lost(io_, status.error(), plan_);
  }

 private:
  ProcessOptions options() {
    ProcessOptions options;
    options.argv = arguments_.command;
    options.environment = arguments_.environment;
    options.directory = plan_.directory;
    options.has_input = true;
    options.standard_output = [this](OutputChunk chunk) { out_.push(std::move(chunk)); };
    options.standard_error = [this](OutputChunk chunk) { err_.push(std::move(chunk)); };
    return options;
  }

  Client& client_;
  const ExecArguments& arguments_;
  const ExecPlan& plan_;
  SignalForwarder& signals_;
  const cli::Io io_;
  ProcessSlot slot_;
  OutputWriter out_;
  OutputWriter err_;
};

/// Usage that the declared options cannot express.
std::optional<int> check_usage(const cli::App& app, const ExecArguments& arguments, cli::Io io) {
  if (arguments.command.empty())
    return app.usage_error(io, "no command was given: put it after -- (login shells come in a later version)");
  if (!arguments.token_file.empty() && !arguments.grant_command.empty())
    return app.usage_error(io, "--token-file and --grant-command exclude each other");
  if (arguments.grant_command.size() > client::kMaxGrantCommand)
    return app.usage_error(io, "the grant command is longer than 4096 bytes; put it into a script");
  for (const auto& variable : arguments.environment)
    if (variable.find('=') == std::string::npos || variable.front() == '=')
      return app.usage_error(io, "--env takes NAME=VALUE, not \"" + base::printable(variable) + "\"", variable,
                             "NAME=VALUE");
  return std::nullopt;
}

}  // namespace

int sandbox_exec_main(int argc, char** argv, cli::Io io) {
  claim_standard_descriptors();
  cli::App app({.program = kProgram,
                .summary = "Runs a command in a sandbox, with input, output, signals and exit code as if it ran here.",
                .rest = "CMD [ARG...]",
                .usage_code = kFailed});
  ExecArguments arguments;
  declare_exec(app, arguments);
  if (const auto code = app.parse(argc, argv, io)) return *code;
  arguments.command = app.rest();
  if (const auto code = check_usage(app, arguments, io)) return *code;
  const auto plan = plan_exec(arguments);
  if (!plan) {
    const bool is_usage = plan.error().operation.empty() || plan.error().operation.starts_with("parse TARGET");
    return is_usage ? app.usage_error(io, plan.error().message()) : fail(io, plan.error().message());
  }

  base::set_log_program(kProgram);
  if (arguments.quiet) base::set_log_level(base::LogLevel::error);
  ::signal(SIGPIPE, SIG_IGN);  // a reader that goes away is told by EPIPE
  SignalForwarder signals;
  ClientOptions options;
  options.token = plan->token;
  options.ca_file = plan->ca_file;
  options.insecure = plan->insecure;
  options.notices = [](const std::string& notice) { base::log_warning(notice); };
  options.grant_command = plan->grant_command;
  options.access = {AccessKind::shell};
  auto client = Client::connect(plan->target, options);
  if (!client) return fail(io, client.error().message());
  return Execution(*client, arguments, *plan, signals, io).run();
}

}  // namespace sandbar::tools
