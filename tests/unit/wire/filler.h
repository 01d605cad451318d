// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/fields.h"

namespace sandbar::wire {

/// An archive that fills every field with a value of its own, so that a round trip that mixes up, drops or shares
/// fields shows. Also counts them: see arity().
class Filler {
 public:
  explicit Filler(bool utf8) : utf8_(utf8) {}

  template <class T>
  void need(std::string_view, T&& field) {
    ++count_;
    fill(field);
  }
  template <class T>
  void may(std::string_view name, T&& field) {
    need(name, field);
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  // Beyond 32 bits, and beyond what a double holds exactly.
  void fill(std::uint64_t& number) { number = 0xFFFF'FFFF'FFFF'0000U + ++next_; }
  void fill(std::uint32_t& number) { number = 0xFFFF'0000U + ++next_; }
  void fill(std::int64_t& number) { number = -static_cast<std::int64_t>(1'000'000'000'000 + ++next_); }
  void fill(bool& flag) { flag = true; }
  template <class Tag>
  void fill(base::StrongId<Tag>& id) {
    fill(id.value);
  }
  void fill(Time& time) {
    fill(time.seconds);
    time.nanoseconds = 999'999'000 + ++next_;
  }
  void fill(Attributes& a) {
    fill_all(a.device, a.inode, a.birth, a.mode, a.links, a.uid, a.gid, a.rdev, a.size, a.blocks, a.block_size,
             a.accessed, a.modified, a.changed, a.has_xattrs);
  }
  void fill(Caller& caller) { fill_all(caller.uid, caller.gid, caller.groups, caller.umask); }
  template <class... T>
  void fill_all(T&... fields) {
    (fill(fields), ...);
  }
  template <class T>
  void fill(std::vector<T>& values) {
    for (T& value : values = std::vector<T>(3)) fill(value);
  }
  template <class T>
  void fill(std::optional<T>& value) {
    fill(value.emplace());
  }
  void fill(LockKind& kind) { kind = LockKind::flock; }
  void fill(LockType& type) { type = LockType::write; }
  void fill(Text<std::string> field) { field.value = "text \"\\/\n\x01 \xC3\xA4 " + std::to_string(++next_); }
  void fill(ByteString<base::Bytes> field) {
    field.value = (utf8_ ? "name \"\\\n\x7F \xE2\x82\xAC " : "\xFF\x80 \xC3 ") + std::to_string(++next_);
  }
  void fill(ByteStrings<std::vector<base::Bytes>> field) {
    for (base::Bytes& value : field.value = std::vector<base::Bytes>(3)) fill(ByteString{value, field.most});
  }
  void fill(Texts<std::vector<std::string>> field) {
    for (std::string& value : field.value = std::vector<std::string>(3)) fill(Text{value, field.most});
  }
  template <class T>
  requires requires(Filler& filler, T& message) { fields(filler, message); }
  void fill(T& message) {
    Filler inner(utf8_);
    inner.next_ = next_ + 100;
    fields(inner, message);
  }

  bool utf8_;
  int count_ = 0;
  std::uint32_t next_ = 0;
};

struct Anything {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

/// How many members the aggregate T has: as many as it can be initialized with.
template <class T, class... Tried>
constexpr int arity() {
  if constexpr (requires { T{Tried{}..., Anything{}}; })
    return arity<T, Tried..., Anything>();
  else
    return sizeof...(Tried);
}

/// A T with all fields filled, and the number of fields that its list names.
template <class T>
std::pair<T, int> filled(bool utf8) {
  T message;
  Filler filler(utf8);
  fields(filler, message);
  return {message, filler.count()};
}

/// Calls visit.operator()<Alternative>() for each alternative of the variant.
template <class Variant, class Visit>
void each_alternative(Visit visit) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (visit.template operator()<std::variant_alternative_t<I, Variant>>(), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>{});
}

}  // namespace sandbar::wire
