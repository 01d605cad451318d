// SPDX-License-Identifier: Apache-2.0
#include "sandbar/error.h"

#include <array>
#include <cstring>
#include <utility>

namespace sandbar {
namespace {

struct Name {
  Errc code;
  std::string_view name;
};

constexpr std::array kNames{
    Name{Errc::os, "os"},
    Name{Errc::invalid, "invalid"},
    Name{Errc::timeout, "timeout"},
    Name{Errc::cancelled, "cancelled"},
    Name{Errc::disconnected, "disconnected"},
    Name{Errc::unauthorized, "unauthorized"},
    Name{Errc::protocol, "protocol"},
    Name{Errc::unsupported, "unsupported"},
    Name{Errc::limit, "limit"},
    Name{Errc::unknown, "unknown"},
    Name{Errc::internal, "internal"},
};

}  // namespace

std::string_view errc_name(Errc code) noexcept {
  for (const Name& entry : kNames)
    if (entry.code == code) return entry.name;
  return "internal";
}

Errc errc_from_name(std::string_view name) noexcept {
  for (const Name& entry : kNames)
    if (entry.name == name) return entry.code;
  return Errc::internal;
}

std::string Error::message() const {
  std::string why = detail;
  if (os_errno != 0) {
    // strerrordesc_np is thread-safe and independent of the locale (glibc 2.32).
    const char* text = strerrordesc_np(os_errno);
    std::string reason = text != nullptr ? text : "error " + std::to_string(os_errno);
    why = why.empty() ? reason : why + ": " + reason;
  }
  if (why.empty()) why = errc_name(code);
  return operation.empty() ? why : operation + ": " + why;
}

Error os_error(int os_errno, std::string operation, std::string detail) {
  return Error{Errc::os, os_errno, std::move(operation), std::move(detail)};
}

Error make_error(Errc code, std::string operation, std::string detail) {
  return Error{code, 0, std::move(operation), std::move(detail)};
}

}  // namespace sandbar
