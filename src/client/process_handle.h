// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/function.h"
#include "sandbar/process.h"

namespace sandbar::client {

class ClientCore;
class ProcessState;

/// The callers' side of one process: blocking calls. Any thread.
class ProcessHandle {
 public:
  static Result<std::unique_ptr<ProcessHandle>> spawn(const std::shared_ptr<ClientCore>& core, ProcessOptions options);

  ProcessHandle(std::shared_ptr<ClientCore> core, std::shared_ptr<ProcessState> state, std::string id);
  ~ProcessHandle();
  ProcessHandle(const ProcessHandle&) = delete;
  ProcessHandle& operator=(const ProcessHandle&) = delete;

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] std::uint32_t pid() const { return pid_; }
  Result<void> write(std::string bytes);
  Result<void> close_input();
  void close_output(OutputStream stream);
  Result<void> signal(int number);
  [[nodiscard]] bool ended() const;
  Result<ExitStatus> wait();

 private:
  void wake_feed();
  /// Runs `task` on the loop's thread before it returns.
  void on_loop(base::Task task);

  const std::shared_ptr<ClientCore> core_;
  std::shared_ptr<ProcessState> state_;
  const std::string id_;
  std::uint32_t pid_ = 0;
};

}  // namespace sandbar::client
