// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "sandbar/result.h"
#include "wire/instant.h"
#include "wire/limits.h"

/// The JSON of grants that is not the mux's: what a grant token signs, and what tells a client of a token. Decoding is
/// bounded as all heads are, and answers Errc::protocol with the field's name; no value is in an error. Thread-safe.
namespace sandbar::wire {

/// Names of sandboxes and subjects, and how many users (and as many groups) one grant may name.
constexpr std::size_t kMaxGrantName = 128;
constexpr std::size_t kMaxGrantIds = 64;
/// What a grant command may print, and what a cached answer may hold.
constexpr std::size_t kMaxGrantAnswer = 64 * 1024;
constexpr std::size_t kMaxUrl = 2048;

/// The signed part of a grant token (grant/token.h has its form).
struct GrantPayload {
  std::string kind;     ///< "files", "shell", "port"
  std::string sandbox;  ///< empty: any that trusts the key
  std::uint32_t port = 0;
  std::string subject;
  std::optional<std::vector<std::uint32_t>> uids;  ///< none: any
  std::optional<std::vector<std::uint32_t>> gids;  ///< none: any where uids is none, else the same numbers
  Instant issued;
  Instant expires;
  bool operator==(const GrantPayload&) const = default;
};

base::Bytes encode_grant_payload(const GrantPayload& payload);
Result<GrantPayload> decode_grant_payload(base::BytesView json);

/// What a grant command prints, what a control plane answers, and what the client's cache keeps of either.
struct GrantAnswer {
  std::string url;  ///< may be empty
  std::string token;
  Instant expires_at;
  Instant fetched_at;  ///< the cache's own
  bool operator==(const GrantAnswer&) const = default;
};

base::Bytes encode_grant_answer(const GrantAnswer& answer);
Result<GrantAnswer> decode_grant_answer(base::BytesView json);

}  // namespace sandbar::wire
