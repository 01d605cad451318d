// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

// RapidJSON's own default is assert(), which a release build removes: what it guards would then be undefined. This is
// the only place that includes it.
#ifndef RAPIDJSON_ASSERT
#define RAPIDJSON_ASSERT(condition) SANDBAR_ASSERT(condition)
#endif
// RapidJSON 1.1.0's empty stack adds to a null pointer before it allocates (internal/stack.h, Reserve): harmless, but
// clang's sanitizer says so at each first value.
#ifdef __clang__
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/document.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/writer.h>
#ifdef __clang__
#pragma clang attribute pop
#endif

/// Private to src/wire: no RapidJSON type leaves this folder.
namespace sandbar::wire::json {

using Pool = rapidjson::MemoryPoolAllocator<>;
using Value = rapidjson::GenericValue<rapidjson::UTF8<>, Pool>;

inline base::BytesView text_of(const Value& string) { return {string.GetString(), string.GetStringLength()}; }

/// A parsed head: one JSON object within the limits (depth, array elements, fields of an object, no name twice).
/// Of small heads, which is nearly all, the tree lies in the object itself.
class Document {
 public:
  Document();
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  /// Why `head` is not such an object; null when it is. Once. What it takes is a small multiple of head's size: it
  /// stops at the first element that is too much, before the tree grows by it.
  const char* parse(base::BytesView head);
  [[nodiscard]] const Value& root() const { return document_; }
  /// Bytes of memory that the tree has taken, its own included.
  [[nodiscard]] std::size_t capacity() const { return values_.Capacity(); }

 private:
  // Uninitialized on purpose: 4 KiB of zeros for each request would cost as much as parsing it.
  alignas(16) std::array<char, 4096> value_space_;
  Pool values_;
  // Not a pool: one never gives back what a stack that grows leaves behind.
  rapidjson::CrtAllocator stack_;
  rapidjson::GenericDocument<rapidjson::UTF8<>, Pool> document_;
};

}  // namespace sandbar::wire::json
