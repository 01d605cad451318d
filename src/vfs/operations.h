// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "vfs/file_system.h"

namespace sandbar::vfs {

/// What an operation needs until its last request is answered.
struct Pins {
  std::vector<NodeId> nodes;
  std::vector<FileId> files;
};

/// One operation under way. The kernel's side of it (`done`) can be over before the sandbox's side (the call), when an
/// interrupt ends it; the pins last until both are.
struct Operation {
  OperationId id;
  Pins pins;
  client::CallId call;     ///< the request under way
  base::TimerId early;     ///< ends it before its answer is there
  bool calling = false;    ///< one is
  bool finished = false;   ///< `done` has run
  bool lock_wait = false;  ///< may take for ever, and any interrupt ends it
  bool runs_on = false;    ///< an interrupt ends it for its caller only: what its answer binds must be released, and
                           ///< what it gives back must not stay taken

  virtual ~Operation() = default;
  /// Runs `done`.
  virtual void fail(Error error) = 0;
};

template <class T>
struct OperationOf final : Operation {
  explicit OperationOf(base::OneShot<T> completion) : done(std::move(completion)) {}
  void fail(Error error) override { done(std::move(error)); }

  base::OneShot<T> done;
};

template <class T>
using OperationPtr = std::shared_ptr<OperationOf<T>>;

/// The operations that are not finished, by number. On the loop's thread.
class Operations {
 public:
  OperationId next() { return OperationId(++last_id_); }
  void add(std::shared_ptr<Operation> operation);
  [[nodiscard]] std::shared_ptr<Operation> find(OperationId id) const;
  void remove(OperationId id) { running_.erase(id); }
  /// All of them; none is left.
  std::vector<std::shared_ptr<Operation>> take_all();
  [[nodiscard]] std::size_t size() const { return running_.size(); }

 private:
  std::uint64_t last_id_ = 0;
  std::unordered_map<OperationId, std::shared_ptr<Operation>> running_;
};

}  // namespace sandbar::vfs
