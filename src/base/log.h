// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace sandbar::base {

enum class LogLevel { debug, info, warning, error };

/// Where log lines go: stderr, one line each, "PROGRAM: message". Any thread. Set once in main before threads start.
void set_log_program(std::string_view program);
void set_log_level(LogLevel least);
/// Control characters in `message` are escaped: names and output of a sandbox must not drive a terminal.
/// Callers put no token and no secret into a message.
void log(LogLevel level, std::string_view message);

inline void log_debug(std::string_view message) { log(LogLevel::debug, message); }
inline void log_info(std::string_view message) { log(LogLevel::info, message); }
inline void log_warning(std::string_view message) { log(LogLevel::warning, message); }
inline void log_error(std::string_view message) { log(LogLevel::error, message); }

}  // namespace sandbar::base
