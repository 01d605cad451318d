// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/unique_fd.h"
#include "sandbar/process.h"

namespace sandbar::tools {

/// Opens /dev/null where descriptor 0, 1 or 2 is closed, so that no socket of ours gets its number. What is written to
/// one that was closed still fails with EBADF.
void claim_standard_descriptors();

/// Carries a descriptor's bytes to a process, on a thread of its own: pipes, files, terminals, whether blocking or not.
class StdinReader {
 public:
  /// `process` must outlive it.
  StdinReader(int fd, Process& process);
  ~StdinReader();
  StdinReader(const StdinReader&) = delete;
  StdinReader& operator=(const StdinReader&) = delete;

  /// Ends the thread, also while nothing comes; once the process has ended or is lost. The error of a read that failed:
  /// the process was hung up before its input ended, because it would take what it has for the whole.
  std::optional<Error> stop();

 private:
  void run();
  bool wait_readable();

  const int fd_;
  Process& process_;
  base::UniqueFd wake_;
  std::optional<Error> failure_;  ///< written by the thread, read after it
  std::thread thread_;
};

/// Writes a stream's chunks to a descriptor, on a thread of its own that begins with the first one. A reader that does
/// not read holds up this stream only: chunks that wait keep their credit.
class OutputWriter {
 public:
  /// `closed` is called on the thread when the descriptor takes no more (EPIPE, or an error): once, and before finish()
  /// returns.
  OutputWriter(int fd, std::function<void()> closed);
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  /// Never blocks. Any thread.
  void push(OutputChunk chunk);
  /// Returns when all that was pushed is written. An error other than EPIPE: bytes are missing.
  std::optional<Error> finish();

 private:
  void run();
  bool write_all(std::string_view bytes);

  const int fd_;
  const std::function<void()> closed_;
  std::optional<Error> failure_;  ///< written by the thread, read after it
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<OutputChunk> queue_;  ///< guarded by mutex_
  bool finishing_ = false;         ///< guarded by mutex_
  std::thread thread_;             ///< guarded by mutex_ until finish()
};

}  // namespace sandbar::tools
