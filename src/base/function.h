// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace sandbar::base {

/// A callable that can own move-only state (std::move_only_function is C++23). Not thread-safe.
template <class Signature>
class Function;

template <class R, class... Args>
class Function<R(Args...)> {
 public:
  Function() = default;
  Function(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, Function> &&
                                              std::is_invocable_r_v<R, std::decay_t<F>&, Args...>>>
  Function(F&& callable)  // NOLINT(google-explicit-constructor)
      : held_(std::make_unique<Held<std::decay_t<F>>>(std::forward<F>(callable))) {}

  explicit operator bool() const noexcept { return held_ != nullptr; }
  R operator()(Args... args) { return held_->call(std::forward<Args>(args)...); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual R call(Args... args) = 0;
  };
  template <class F>
  struct Held final : Base {
    template <class G>
    explicit Held(G&& from) : callable(std::forward<G>(from)) {}
    R call(Args... args) override { return callable(std::forward<Args>(args)...); }
    F callable;
  };
  std::unique_ptr<Base> held_;
};

using Task = Function<void()>;

}  // namespace sandbar::base
