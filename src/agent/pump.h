// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "base/function.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "mux/channel.h"

/// Between a child's pipe and a channel of a session. On the loop's thread.
namespace sandbar::agent {

/// Channel -> the child's stdin. Credits are given back only for bytes that the pipe took. Once nobody reads the pipe
/// any more the channel is reset with EPIPE: that is no error, a command may ignore its input. The channel's end closes
/// the pipe: a real EOF. A session that is lost closes nothing, so that a program does not take half its input for all
/// of it: the owner hangs the process up, and the pipe goes with this object.
class InputPump final : public mux::Channel::Handler {
 public:
  InputPump(base::Loop& loop, base::UniqueFd pipe, std::shared_ptr<mux::Channel> channel);
  ~InputPump() override;
  InputPump(const InputPump&) = delete;
  InputPump& operator=(const InputPump&) = delete;

  void on_data(base::Bytes data) override;
  void on_end() override;
  void on_reset(const Error& reason) override;
  void on_writable() override {}

 private:
  void flush();
  void close_pipe();
  void refuse();

  base::Loop& loop_;
  base::UniqueFd pipe_;
  std::shared_ptr<mux::Channel> channel_;
  std::deque<base::Bytes> queue_;  ///< at most the channel's window
  std::size_t offset_ = 0;         ///< bytes of the first that are written
  std::optional<base::WatchId> watch_;
  bool ended_ = false;
};

/// The child's stdout or stderr -> channel. Reads only as much as the channel may take, so a slow reader stops its own
/// process. At EOF the channel is ended; a channel that is reset closes the pipe (the child gets SIGPIPE, as locally).
class OutputPump final : public mux::Channel::Handler {
 public:
  /// `finished` runs once when the stream is over, never inside a call of the owner's except stop().
  OutputPump(base::Loop& loop, base::UniqueFd pipe, std::shared_ptr<mux::Channel> channel, base::Task finished);
  ~OutputPump() override;
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  /// Ends the stream now, although others may hold the pipe. Nothing if it is over already; `finished` runs.
  void stop();
  [[nodiscard]] bool over() const { return !pipe_; }
  /// Reads what is there now; for a loop that was too busy to see it.
  void look() {
    if (watch_) read_some();
  }
  /// When bytes last moved or were last held up by the reader.
  [[nodiscard]] base::TimePoint last_activity() const;

  void on_data(base::Bytes data) override;
  void on_end() override {}
  void on_reset(const Error& reason) override;
  void on_writable() override;

 private:
  void read_some();
  void listen();
  void pause();
  void finish();

  base::Loop& loop_;
  base::UniqueFd pipe_;
  std::shared_ptr<mux::Channel> channel_;
  base::Task finished_;
  std::optional<base::WatchId> watch_;  ///< none while the channel takes nothing
  base::TimePoint last_activity_;
};

}  // namespace sandbar::agent
