// SPDX-License-Identifier: Apache-2.0
#include "vfs/operations.h"

namespace sandbar::vfs {

void Operations::add(std::shared_ptr<Operation> operation) {
  const OperationId id = operation->id;
  running_.emplace(id, std::move(operation));
}

std::shared_ptr<Operation> Operations::find(OperationId id) const {
  const auto found = running_.find(id);
  return found == running_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Operation>> Operations::take_all() {
  std::vector<std::shared_ptr<Operation>> all;
  all.reserve(running_.size());
  for (auto& [id, operation] : running_) all.push_back(std::move(operation));
  running_.clear();
  return all;
}

}  // namespace sandbar::vfs
