// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "net/transport.h"

namespace sandbar::fakes {

/// One end of a connection in memory. Messages wait in `outbox` until a task delivers them (automatic, the default) or
/// the test does; so a test can hold, reorder (as no real one would), drop and count them. Full at `high_water` bytes.
class FakeTransport final : public net::Transport {
 public:
  struct End;
  /// Two ends that are connected.
  static std::pair<std::unique_ptr<FakeTransport>, std::unique_ptr<FakeTransport>> pair(base::Loop& loop) {
    auto a = std::make_shared<End>(loop);
    auto b = std::make_shared<End>(loop);
    a->peer = b;
    b->peer = a;
    return {std::make_unique<FakeTransport>(a), std::make_unique<FakeTransport>(b)};
  }

  struct End : std::enable_shared_from_this<End> {
    explicit End(base::Loop& on) : loop(on) {}
    base::Loop& loop;
    std::weak_ptr<End> peer;
    Handler* handler = nullptr;
    std::deque<base::Bytes> outbox;
    std::deque<base::Bytes> early;  ///< arrived before start()
    std::vector<base::Bytes> sent;  ///< everything, when `record` is on
    std::size_t bytes = 0;
    std::size_t high_water = 256 * 1024;
    bool automatic = true;
    bool record = false;
    bool closed = false;
    std::optional<Error> final;  ///< why it ended, for a handler that comes later

    bool full() const { return bytes >= high_water; }

    /// Hands the oldest waiting message to the peer. False when none waits.
    bool deliver_one() {
      if (outbox.empty()) return false;
      const auto self = shared_from_this();
      const bool was_full = full();
      base::Bytes message = std::move(outbox.front());
      outbox.pop_front();
      bytes -= message.size();
      if (const auto other = peer.lock(); other && !other->closed) other->arrive(std::move(message));
      if (was_full && !full() && handler != nullptr) handler->on_writable();
      return true;
    }
    void arrive(base::Bytes message) {
      if (handler == nullptr) return early.push_back(std::move(message));
      handler->on_message(std::move(message));
    }
    void end(const Error& reason) {
      if (closed) return;
      closed = true;
      final = reason;
      if (handler != nullptr) std::exchange(handler, nullptr)->on_closed(reason);
    }
  };

  explicit FakeTransport(std::shared_ptr<End> end) : end_(std::move(end)) {}
  ~FakeTransport() override {
    end_->handler = nullptr;
    end_->closed = true;
    end_->final.reset();
    hang_up();
  }

  /// Outlives the transport, for the test to look at and to act with.
  std::shared_ptr<End> end() { return end_; }

  void start(Handler& handler) override {
    if (end_->handler != nullptr) {
      end_->handler = &handler;
      return;
    }
    end_->loop.post([end = end_, &handler] {
      if (end->final) handler.on_closed(*end->final);
      if (end->closed) return;
      end->handler = &handler;
      while (!end->early.empty() && end->handler != nullptr) {
        base::Bytes message = std::move(end->early.front());
        end->early.pop_front();
        end->handler->on_message(std::move(message));
      }
    });
  }
  void send(base::Bytes message) override {
    if (end_->closed) return;
    if (end_->record) end_->sent.push_back(message);
    end_->bytes += message.size();
    end_->outbox.push_back(std::move(message));
    if (end_->automatic) end_->loop.post([end = end_] { end->deliver_one(); });
  }
  [[nodiscard]] bool writable() const override { return !end_->full(); }
  [[nodiscard]] std::size_t queued() const override { return end_->bytes; }
  void close(std::string_view) override {
    end_->loop.post([end = end_] {
      while (end->deliver_one()) {
      }
      end->end(make_error(Errc::disconnected, "", "closed here"));
    });
    hang_up();
  }
  void send_last(base::Bytes message) override {
    end_->handler = nullptr;
    send(std::move(message));
  }
  [[nodiscard]] std::string peer() const override { return "fake"; }

 private:
  void hang_up() {
    end_->loop.post([other = end_->peer] {
      if (const auto end = other.lock()) end->end(make_error(Errc::disconnected, "", "the peer closed"));
    });
  }

  std::shared_ptr<End> end_;
};

}  // namespace sandbar::fakes
