// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>

/// How fields.h says what a string field may hold; archives (FieldReader, FieldWriter) take them beside plain numbers,
/// ids, flags and the structs of messages.h. `S` is const when it is written.
///
/// An archive has two verbs: need(name, field) for a field that is always there, and may(name, field) for one that is
/// left out when it holds its default.
namespace sandbar::wire {

/// Message types in fields(): the same list serves a const message (written) and one that is being read.
template <class T, class Message>
concept Of = std::same_as<std::remove_const_t<T>, Message>;

/// Bytes that are mostly text: names, paths, arguments. A JSON string, or {"b64":"..."} where they are not UTF-8.
template <class S>
struct ByteString {
  S& value;
  std::size_t most;
};
template <class S>
ByteString(S&, std::size_t) -> ByteString<S>;

/// UTF-8 text.
template <class S>
struct Text {
  S& value;
  std::size_t most;
};
template <class S>
Text(S&, std::size_t) -> Text<S>;

/// Vectors of the two; `most` bounds each element.
template <class V>
struct ByteStrings {
  V& value;
  std::size_t most;
};
template <class V>
ByteStrings(V&, std::size_t) -> ByteStrings<V>;
template <class V>
struct Texts {
  V& value;
  std::size_t most;
};
template <class V>
Texts(V&, std::size_t) -> Texts<V>;

}  // namespace sandbar::wire
