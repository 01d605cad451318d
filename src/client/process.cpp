// SPDX-License-Identifier: Apache-2.0
#include "sandbar/process.h"

#include <utility>

#include "client/process_handle.h"
#include "client/process_state.h"

namespace sandbar {

OutputChunk::OutputChunk(std::string bytes, std::shared_ptr<client::OutputCredit> credit)
    : bytes_(std::move(bytes)), credit_(std::move(credit)) {}

OutputChunk& OutputChunk::operator=(OutputChunk&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  bytes_ = std::move(other.bytes_);
  credit_ = std::move(other.credit_);
  return *this;
}

OutputChunk::~OutputChunk() { give_back(); }

void OutputChunk::give_back() noexcept {
  if (const auto credit = std::exchange(credit_, nullptr)) credit->give_back(bytes_.size());
}

Process::Process(std::unique_ptr<client::ProcessHandle> handle) : handle_(std::move(handle)) {}
Process::Process(Process&&) noexcept = default;
Process& Process::operator=(Process&&) noexcept = default;
Process::~Process() = default;

const std::string& Process::id() const { return handle_->id(); }
std::uint32_t Process::pid() const { return handle_->pid(); }
Result<void> Process::write(std::string bytes) { return handle_->write(std::move(bytes)); }
Result<void> Process::close_input() { return handle_->close_input(); }
void Process::close_output(OutputStream stream) { handle_->close_output(stream); }
Result<void> Process::signal(int number) { return handle_->signal(number); }
bool Process::ended() const { return handle_->ended(); }
Result<ExitStatus> Process::wait() { return handle_->wait(); }

}  // namespace sandbar
