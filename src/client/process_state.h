// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/one_shot.h"
#include "client/client_core.h"
#include "client/stdin_queue.h"
#include "mux/channel.h"
#include "sandbar/process.h"

namespace sandbar::client {

class ProcessState;

/// Gives a stream's credit back, on whatever thread a chunk dies.
class OutputCredit {
 public:
  OutputCredit(std::weak_ptr<LoopState> loop, std::weak_ptr<ProcessState> process, OutputStream stream);
  void give_back(std::size_t bytes);

 private:
  std::weak_ptr<LoopState> loop_;
  std::weak_ptr<ProcessState> process_;
  const OutputStream stream_;
};

/// How a process ended, for those who wait: where the loop's thread and the callers' meet.
class Outcome {
 public:
  void set(Result<ExitStatus> result);
  Result<ExitStatus> wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<ExitStatus>> result_;  ///< guarded by mutex_; set once
};

/// The loop's side of one process: its channels and its requests. All on the loop's thread, also the destructor, but
/// for the members that say otherwise.
class ProcessState final : public std::enable_shared_from_this<ProcessState> {
 public:
  ProcessState(const std::shared_ptr<LoopState>& loop, std::string id, OutputSink out, OutputSink err);
  ~ProcessState();
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;

  /// Opens the channels, sends spawn and wait together; `done` has the pid.
  void start(wire::Spawn spawn, bool has_input, base::Duration timeout, base::OneShot<std::uint32_t> done);
  void signal(std::uint32_t number, base::Duration timeout, base::OneShot<void> done);
  void close_output(OutputStream stream);
  void consumed(OutputStream stream, std::size_t bytes);
  /// Moves what waits in the queue into the channel.
  void feed();
  /// Nobody holds the process any more.
  void abandon();

  // Any thread.
  StdinQueue input;
  Outcome outcome;
  std::atomic<bool> ended{false};

 private:
  class Input final : public mux::Channel::Handler {
   public:
    explicit Input(ProcessState& process) : process_(process) {}
    void on_data(base::Bytes data) override;
    void on_end() override {}
    void on_reset(const Error& reason) override;
    void on_writable() override { process_.feed(); }
    std::shared_ptr<mux::Channel> channel;

   private:
    ProcessState& process_;
  };

  class Output final : public mux::Channel::Handler {
   public:
    Output(ProcessState& process, OutputSink sink);
    void on_data(base::Bytes data) override;
    void on_end() override;
    void on_reset(const Error& reason) override;
    void on_writable() override {}
    /// Nobody reads any more.
    void close();
    std::shared_ptr<mux::Channel> channel;
    bool over = false;
    std::optional<Error> broken;  ///< bytes were lost
    std::shared_ptr<OutputCredit> credit;

   private:
    ProcessState& process_;
    OutputSink sink_;
  };

  std::shared_ptr<mux::Channel> open(mux::Session& session, mux::Channel::Handler& handler);
  Output& output(OutputStream stream) { return stream == OutputStream::standard_output ? out_ : err_; }
  void on_exit(Result<RemoteFs::AnyAnswer> answer);
  void on_lost_input(const Error& reason);
  void maybe_finish();
  void finish(Result<ExitStatus> result);
  void release_channels(const Error& reason);

  const std::weak_ptr<LoopState> loop_;
  const std::string id_;
  Input in_;
  Output out_;
  Output err_;
  std::optional<ExitStatus> status_;
  bool finished_ = false;
};

}  // namespace sandbar::client
