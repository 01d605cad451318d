// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/journal_store.h"
#include "base/unique_fd.h"
#include "sandbar/result.h"

namespace sandbar::agent {

/// Who this agent is to its clients: the same id, and a higher epoch, after each start with the same state folder.
/// The folder is locked for as long as this lives, so that no two agents are the same one.
class State {
 public:
  /// Without a folder: an id of this start alone, epoch 1.
  static State temporary();
  /// Makes the folder (0700) where it is missing, its parent must exist. The new epoch is on the disk when this
  /// returns. Errors name the folder and say what to do: not a directory, writable by others, in use, not readable,
  /// damaged. The journals' records are read: see JournalStore.
  static Result<State> open(const std::string& folder);

  [[nodiscard]] const std::string& id() const { return id_; }  ///< 128 bits in hex
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  /// What is remembered of the clients' mutations; without a folder it begins empty.
  [[nodiscard]] const std::shared_ptr<JournalStore>& journals() const { return held_->journals; }

 private:
  /// In this order: the lock goes when the journals' file is closed.
  struct Held {
    base::UniqueFd folder;
    base::UniqueFd lock;
    std::shared_ptr<JournalStore> journals;
  };

  State() = default;

  std::string id_;
  std::uint64_t epoch_ = 1;
  std::unique_ptr<Held> held_;
};

}  // namespace sandbar::agent
