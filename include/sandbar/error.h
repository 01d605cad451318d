// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sandbar {

/// What kind of failure an Error is. The names travel on the wire (see errc_name) and are stable.
enum class Errc {
  os,            ///< a system call refused; Error::os_errno says why (Linux numbers)
  invalid,       ///< an argument that can never be right: usage, a TARGET that does not parse
  timeout,       ///< the time allowed for the operation ran out; what it did is unknown
  cancelled,     ///< given up by its caller before it finished
  disconnected,  ///< the connection is gone, or could not be made
  unauthorized,  ///< the token was refused, or does not allow this
  protocol,      ///< the peer broke the protocol
  unsupported,   ///< the peer, or this version, does not offer this
  limit,         ///< a stated bound would be exceeded
  unknown,       ///< the outcome cannot be known (the peer's memory of it is gone)
  internal,      ///< a bug on the side that reports it
};

/// The stable name of a code: "os", "invalid", ...
std::string_view errc_name(Errc code) noexcept;
/// The code of a name; Errc::internal for names of newer versions.
Errc errc_from_name(std::string_view name) noexcept;

/// A failure: what was attempted, why it failed. Values are immutable in use and cheap enough to copy;
/// they are not made on the path of a success.
struct Error {
  Errc code = Errc::internal;
  int os_errno = 0;       ///< Linux errno, positive; 0 unless the code is Errc::os
  std::string operation;  ///< what was attempted: "open", "connect to ws://..."
  std::string detail;     ///< why, for people; may be empty

  /// "operation: detail", with strerror's text for Errc::os without a detail. One line.
  [[nodiscard]] std::string message() const;
};

/// An Error of a failed system call.
Error os_error(int os_errno, std::string operation, std::string detail = {});
Error make_error(Errc code, std::string operation, std::string detail = {});

}  // namespace sandbar
