// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <string>

#include "base/text.h"

namespace sandbar::base {
namespace {

std::string& program_name() {
  static std::string name = "sandbar";
  return name;
}
std::atomic<LogLevel> least_level{LogLevel::info};

}  // namespace

void set_log_program(std::string_view program) { program_name() = program; }
void set_log_level(LogLevel least) { least_level = least; }

void log(LogLevel level, std::string_view message) {
  if (level < least_level.load(std::memory_order_relaxed)) return;
  std::string line = program_name() + ": " + printable(message) + "\n";
  // One write, so that lines of several threads and processes do not mix; a log that cannot be written is lost.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace sandbar::base
