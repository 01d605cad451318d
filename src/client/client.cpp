// SPDX-License-Identifier: Apache-2.0
#include "sandbar/client.h"

#include <utility>

#include "client/client_core.h"
#include "client/process_handle.h"

namespace sandbar {

Result<Client> Client::connect(const Target& target, const ClientOptions& options) {
  auto core = client::ClientCore::open(target, options);
  if (!core) return std::move(core).error();
  return Client(std::move(core).value());
}

Client::Client(std::shared_ptr<client::ClientCore> core) : core_(std::move(core)) {}
Client::~Client() = default;

Files Client::files() const { return Files(core_); }

Result<Process> Client::spawn(ProcessOptions options) {
  auto handle = client::ProcessHandle::spawn(core_, std::move(options));
  if (!handle) return std::move(handle).error();
  return Process(std::move(handle).value());
}

const AgentInfo& Client::agent() const { return core_->agent(); }
const Target& Client::target() const { return core_->target(); }
bool Client::connected() const { return core_->connected(); }

}  // namespace sandbar
