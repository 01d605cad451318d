// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sandbar::base {

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace sandbar::base

/// For our own bugs only, in all builds: a peer's bytes are answered with Errc::protocol, never with this.
#define SANDBAR_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::sandbar::base::assertion_failed(#condition, __FILE__, __LINE__))
