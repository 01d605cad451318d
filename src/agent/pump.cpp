// SPDX-License-Identifier: Apache-2.0
#include "agent/pump.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/thread_check.h"

namespace sandbar::agent {
namespace {

/// One read: a pipe's whole content as child.cpp sizes it, so that a wakeup costs one system call and one message.
constexpr std::size_t kReadPiece = 256 * 1024;
/// Where FIONREAD says nothing.
constexpr std::size_t kSmallPiece = 4096;

}  // namespace

InputPump::InputPump(base::Loop& loop, base::UniqueFd pipe, std::shared_ptr<mux::Channel> channel)
    : loop_(loop), pipe_(std::move(pipe)), channel_(std::move(channel)) {
  channel_->end();  // nothing ever goes to the client on its stdin
  channel_->set_handler(this);
}

InputPump::~InputPump() { refuse(); }

void InputPump::on_data(base::Bytes data) {
  SANDBAR_ON_LOOP(loop_);
  if (data.empty()) return;
  queue_.push_back(std::move(data));
  if (!watch_) flush();
}

void InputPump::on_end() {
  ended_ = true;
  if (queue_.empty()) close_pipe();
}

void InputPump::on_reset(const Error& reason) {
  channel_.reset();
  queue_.clear();
  if (reason.code == Errc::disconnected) {
    if (watch_) loop_.unwatch(*watch_);
    watch_.reset();
  } else {
    close_pipe();
  }
}

void InputPump::flush() {
  while (!queue_.empty()) {
    base::Bytes& piece = queue_.front();
    const ssize_t wrote = ::write(pipe_.get(), piece.data() + offset_, piece.size() - offset_);
    if (wrote < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return refuse();
      if (!watch_) watch_ = loop_.watch(pipe_.get(), base::Readiness::writable, [this] { flush(); });
      return;
    }
    offset_ += static_cast<std::size_t>(wrote);
    if (offset_ == piece.size()) {
      queue_.pop_front();
      offset_ = 0;
    }
    channel_->consumed(static_cast<std::size_t>(wrote));
  }
  if (ended_) return close_pipe();
  if (watch_) loop_.unwatch(*watch_);
  watch_.reset();
}

/// Nobody reads. What comes from now on, and what is on its way, is the session's to drop.
void InputPump::refuse() {
  queue_.clear();
  close_pipe();
  if (!channel_) return;
  channel_->set_handler(nullptr);
  if (!ended_) channel_->reset(os_error(EPIPE, "stdin", "nobody reads it any more"));
  channel_.reset();
}

void InputPump::close_pipe() {
  if (watch_) loop_.unwatch(*watch_);
  watch_.reset();
  pipe_.reset();
}

OutputPump::OutputPump(base::Loop& loop, base::UniqueFd pipe, std::shared_ptr<mux::Channel> channel,
                       base::Task finished)
    : loop_(loop),
      pipe_(std::move(pipe)),
      channel_(std::move(channel)),
      finished_(std::move(finished)),
      last_activity_(loop.now()) {
  channel_->set_handler(this);
  listen();
}

OutputPump::~OutputPump() {
  if (watch_) loop_.unwatch(*watch_);
  if (channel_) {
    channel_->set_handler(nullptr);
    channel_->reset(make_error(Errc::cancelled, "output", "the process is gone"));
  }
}

void OutputPump::stop() {
  if (!over()) finish();
}

base::TimePoint OutputPump::last_activity() const { return over() || watch_ ? last_activity_ : loop_.now(); }

void OutputPump::on_data(base::Bytes data) { channel_->consumed(data.size()); }

void OutputPump::on_reset(const Error&) {
  channel_.reset();
  if (!over()) finish();
}

void OutputPump::on_writable() {
  if (over() || watch_) return;
  last_activity_ = loop_.now();
  listen();
}

void OutputPump::listen() {
  if (channel_->budget() > 0) watch_ = loop_.watch(pipe_.get(), base::Readiness::readable, [this] { read_some(); });
}

void OutputPump::read_some() {
  SANDBAR_ON_LOOP(loop_);
  const std::size_t room = std::min(kReadPiece, channel_->budget());
  if (room == 0) return pause();  // the session is going away
  int waiting = 0;
  if (::ioctl(pipe_.get(), FIONREAD, &waiting) < 0 || waiting <= 0) waiting = kSmallPiece;
  base::Bytes piece(std::min(room, static_cast<std::size_t>(waiting)), '\0');
  const ssize_t got = ::read(pipe_.get(), piece.data(), piece.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return finish();
  piece.resize(static_cast<std::size_t>(got));
  last_activity_ = loop_.now();
  channel_->write(std::move(piece));
  if (channel_->budget() == 0) pause();
}

void OutputPump::pause() {
  if (watch_) loop_.unwatch(*watch_);
  watch_.reset();
}

void OutputPump::finish() {
  pause();
  pipe_.reset();
  if (channel_) {
    channel_->end();
    channel_->set_handler(nullptr);
    channel_.reset();
  }
  if (auto finished = std::exchange(finished_, nullptr)) finished();
}

}  // namespace sandbar::agent
