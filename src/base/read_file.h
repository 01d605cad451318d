// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "base/unique_fd.h"
#include "sandbar/result.h"

/// Small files that somebody else may have written: whole, and bounded. Any thread; they block as read(2) does.
namespace sandbar::base {

/// What is left to read, at most `most` + 1 bytes: so that whoever asks sees by the size that it is too large. Errc::os
/// with `operation`.
Result<std::string> read_up_to(int fd, std::size_t most, const std::string& operation);

/// A file or pipe to read; EISDIR for a directory. A secret one is refused (Errc::invalid, with the chmod to run) where
/// others than its owner have any rights on it. Errors have `operation`.
Result<UniqueFd> open_to_read(const std::string& path, bool is_secret, const std::string& operation);

/// A regular file to read: a FIFO or a device could block for ever, or never end. `refusal`: what is said of those.
Result<UniqueFd> open_regular(const std::string& path, const char* refusal, const std::string& operation);

}  // namespace sandbar::base
