// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/function.h"
#include "base/one_shot.h"
#include "client/connection.h"
#include "net/asio_loop.h"
#include "sandbar/client.h"

namespace sandbar::client {

/// What lives on the loop's thread. Kept alive by that thread, and by whoever may still post to the loop.
struct LoopState {
  net::AsioLoop loop;
  std::unique_ptr<PendingConnection> pending;  ///< loop thread only
  std::unique_ptr<Connection> connection;      ///< loop thread only; after the loop, which it uses
  std::atomic<bool> lost{false};
};

/// The engine of the public Client: a thread that runs a loop with one connection, and blocking calls into it. Shared
/// by the Client and all that came from it; the last one to go ends the connection and the thread.
///
/// All members may be called on any thread, unless they say otherwise.
class ClientCore {
 public:
  static Result<std::shared_ptr<ClientCore>> open(const Target& target, const ClientOptions& options);

  ClientCore(const Target& target, const ClientOptions& options);
  ~ClientCore();
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  [[nodiscard]] const Target& target() const { return target_; }
  [[nodiscard]] const AgentInfo& agent() const { return agent_; }
  [[nodiscard]] bool connected() const { return !state_->lost; }
  [[nodiscard]] base::Duration request_timeout() const { return request_timeout_; }
  [[nodiscard]] const std::shared_ptr<LoopState>& state() const { return state_; }

  void post(base::Task task) { state_->loop.post(std::move(task)); }

  /// Runs `start` on the loop's thread and blocks until the completion that it was given has run.
  template <class T>
  Result<T> await(base::Function<void(base::OneShot<T>)> start) {
    if (on_own_thread()) return own_thread_error();
    std::promise<Result<T>> promise;
    std::future<Result<T>> future = promise.get_future();
    base::OneShot<T> done = [promise = std::move(promise)](Result<T> result) mutable {
      promise.set_value(std::move(result));
    };
    post([start = std::move(start), done = std::move(done)]() mutable { start(std::move(done)); });
    return future.get();
  }

  /// One request of a batch.
  struct Call {
    wire::RequestBody request;
    base::Bytes body;
  };
  using Answers = std::vector<Result<RemoteFs::AnyAnswer>>;
  /// Sends all at once, in order, and blocks until each is answered; results in the same order.
  Answers exchange(std::vector<Call> calls);
  /// Sends without waiting for answers: what gives ids back.
  void send(std::vector<Call> calls);

  wire::ObjectId new_object(std::uint64_t count = 1) { return wire::ObjectId(next_object_.fetch_add(count)); }
  wire::HandleId new_handle() { return wire::HandleId(next_handle_.fetch_add(1)); }

  /// The error of a blocking call on the loop's thread, which would wait for itself.
  [[nodiscard]] bool on_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  static Error own_thread_error();

 private:
  Result<void> connect(const ClientOptions& options);

  const Target target_;
  const base::Duration request_timeout_;
  AgentInfo agent_;
  std::atomic<std::uint64_t> next_object_{1};
  std::atomic<std::uint64_t> next_handle_{1};
  std::shared_ptr<LoopState> state_;
  std::thread thread_;
};

}  // namespace sandbar::client
