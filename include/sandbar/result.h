// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "sandbar/error.h"

namespace sandbar {

/// A value or the Error that took its place. (std::expected is C++23, and clang 14 cannot use libstdc++ 12's.)
/// Reading the side that is not there aborts: that is a bug, never a peer's doing.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  T& value() & { return *checked<0>(); }
  const T& value() const& { return *checked<0>(); }
  T&& value() && { return std::move(*checked<0>()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return checked<0>(); }
  const T* operator->() const { return checked<0>(); }

  Error& error() & { return *checked<1>(); }
  const Error& error() const& { return *checked<1>(); }
  Error&& error() && { return std::move(*checked<1>()); }

 private:
  template <std::size_t I>
  auto* checked() {
    auto* held = std::get_if<I>(&state_);
    if (held == nullptr) std::abort();
    return held;
  }
  template <std::size_t I>
  const auto* checked() const {
    const auto* held = std::get_if<I>(&state_);
    if (held == nullptr) std::abort();
    return held;
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  Error& error() & {
    if (!error_) std::abort();
    return *error_;
  }
  const Error& error() const& {
    if (!error_) std::abort();
    return *error_;
  }
  Error&& error() && {
    if (!error_) std::abort();
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace sandbar
