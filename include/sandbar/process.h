// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sandbar/result.h"

namespace sandbar {

namespace client {
class ClientCore;
class OutputCredit;
class ProcessHandle;
}  // namespace client

/// Some bytes of a process' output, or its end. While chunks that hold 1 MiB of one stream exist, the process is sent
/// no more credit for that stream and in time blocks in its write(2), as on a full pipe; the other stream goes on.
/// Destroying a chunk gives its share back. Movable; may be destroyed on any thread.
class OutputChunk {
 public:
  OutputChunk(std::string bytes, std::shared_ptr<client::OutputCredit> credit);
  OutputChunk(OutputChunk&&) noexcept = default;
  OutputChunk& operator=(OutputChunk&& other) noexcept;
  OutputChunk(const OutputChunk&) = delete;
  OutputChunk& operator=(const OutputChunk&) = delete;
  ~OutputChunk();

  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }
  /// The stream ended: the last chunk, without bytes. Every other one holds at least one byte.
  [[nodiscard]] bool is_end() const noexcept { return bytes_.empty(); }

 private:
  void give_back() noexcept;
  std::string bytes_;
  std::shared_ptr<client::OutputCredit> credit_;
};

/// Takes a stream's chunks, in order. Called on the library's own thread, one call at a time: it must not block and
/// must not call anything of this library that does. Work that may block belongs on a thread of the program's: move
/// the chunk there, and the process waits for it. Must not throw.
using OutputSink = std::function<void(OutputChunk)>;

enum class OutputStream { standard_output, standard_error };

struct ProcessOptions {
  /// The command and its arguments; at least one. A name without '/' is searched in the sandbox's PATH.
  std::vector<std::string> argv = {};
  /// "NAME=value", added to the agent's own environment, in whose place where the name is the same.
  std::vector<std::string> environment = {};
  /// Below the agent's root; empty: the directory of the Target that the Client was connected to.
  std::string directory = {};
  /// True: write() feeds it. False: it reads /dev/null.
  bool has_input = false;
  /// Empty: what the process writes there is thrown away.
  OutputSink standard_output = {};
  OutputSink standard_error = {};
};

struct ExitStatus {
  int code = 0;              ///< 0..255, when `signal` is 0
  int signal = 0;            ///< the signal that ended it (Linux numbers)
  bool core_dumped = false;  ///< with `signal`
};

/// A process that Client::spawn() started. Movable; thread-safe; keeps the Client's connection. Destroying it while the
/// process runs resets its streams and sends its group SIGHUP.
///
/// Errc::unknown from wait(): the session with the sandbox was lost, and with it what the process did since.
/// Errc::disconnected from any of these: the connection is gone.
class Process {
 public:
  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  /// Its name for the agent: 32 hexadecimal digits, random.
  [[nodiscard]] const std::string& id() const;
  /// Its number in the sandbox.
  [[nodiscard]] std::uint32_t pid() const;

  /// Queues bytes for its standard input; blocks while more than 512 KiB wait to be sent. Errc::os with EPIPE once
  /// the process closed its input or ended, and after close_input().
  Result<void> write(std::string bytes);
  /// End of file, behind all that was written.
  Result<void> close_input();
  /// The sink is not called any more, and the process gets SIGPIPE or EPIPE when it writes there: as if the reader of
  /// a pipe had gone. Bytes on the way are lost.
  void close_output(OutputStream stream);
  /// Sends a signal (Linux number) to its process group. One that has ended is no error.
  Result<void> signal(int number);
  /// True once its end is known, also while output is still on the way.
  [[nodiscard]] bool ended() const;
  /// Blocks until the process has ended and the sinks were given every byte and the end of both streams (a child that
  /// the process left behind may hold them open). Again, and on other threads: the same answer.
  Result<ExitStatus> wait();

 private:
  friend class Client;
  explicit Process(std::unique_ptr<client::ProcessHandle> handle);
  std::unique_ptr<client::ProcessHandle> handle_;
};

}  // namespace sandbar
