// SPDX-License-Identifier: Apache-2.0
#include "grant/token.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "wire/grant_heads.h"

namespace sandbar::grant {
namespace {

constexpr const char* kVerify = "check the grant";
/// Of kSignatureSize bytes, without padding.
constexpr std::size_t kSignatureText = (kSignatureSize * 8 + 5) / 6;

std::string base64url(std::string_view bytes) {
  std::string text = base::base64_encode(bytes);
  while (!text.empty() && text.back() == '=') text.pop_back();
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

/// RFC 4648 section 5 without padding; each byte string has one text.
bool from_base64url(std::string_view text, std::string& into) {
  if (text.find_first_of("+/=") != std::string_view::npos) return false;
  std::string plain(text);
  std::replace(plain.begin(), plain.end(), '-', '+');
  std::replace(plain.begin(), plain.end(), '_', '/');
  plain.append((4 - plain.size() % 4) % 4, '=');
  return base::base64_decode(plain, into);
}

Error refused(std::string why) { return make_error(Errc::unauthorized, kVerify, std::move(why)); }

struct Parts {
  std::string_view signed_text;  ///< all before the last dot
  std::string_view key_id;
  std::string_view payload;
  std::string_view signature;
};

bool split(std::string_view token, Parts& parts) {
  const std::string_view body = token.substr(kTokenPrefix.size());
  const std::size_t first = body.find('.');
  const std::size_t last = body.rfind('.');
  if (first != kKeyIdSize || last == first || last == std::string_view::npos) return false;
  parts.key_id = body.substr(0, first);
  parts.payload = body.substr(first + 1, last - first - 1);
  parts.signature = body.substr(last + 1);
  parts.signed_text = token.substr(0, kTokenPrefix.size() + last);
  return parts.payload.find('.') == std::string_view::npos && parts.signature.size() == kSignatureText;
}

/// Of a payload whose signature is right; times are within int64 after this.
Result<Grant> to_grant(std::string_view key_id, wire::GrantPayload payload) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<UnixTime>::max() / 2);
  const auto kind = kind_from_name(payload.kind);
  if (!kind) return refused("it is of a kind that this version does not know");
  if (payload.port > 65535 || payload.issued.seconds > kMost || payload.expires.seconds > kMost)
    return refused("a number in it is out of range");
  Grant grant;
  grant.key_id = key_id;
  grant.kind = *kind;
  grant.sandbox = std::move(payload.sandbox);
  grant.port = static_cast<std::uint16_t>(payload.port);
  grant.subject = std::move(payload.subject);
  grant.uids = std::move(payload.uids);
  grant.gids = std::move(payload.gids);
  grant.issued = static_cast<UnixTime>(payload.issued.seconds);
  grant.expires = static_cast<UnixTime>(payload.expires.seconds);
  return grant;
}

}  // namespace

Result<std::string> mint(Grant grant, const PrivateKey& key) {
  if (auto right = check(grant); !right) return std::move(right).error();
  wire::GrantPayload payload;
  payload.kind = kind_name(grant.kind);
  payload.sandbox = std::move(grant.sandbox);
  payload.port = grant.port;
  payload.subject = std::move(grant.subject);
  payload.uids = std::move(grant.uids);
  payload.gids = std::move(grant.gids);
  payload.issued.seconds = static_cast<std::uint64_t>(grant.issued);
  payload.expires.seconds = static_cast<std::uint64_t>(grant.expires);
  std::string token = std::string(kTokenPrefix) + key.id() + "." + base64url(wire::encode_grant_payload(payload));
  token += "." + base64url(key.sign(token));
  if (token.size() > wire::kMaxToken)
    return make_error(Errc::limit, "make the grant", "its token would be larger than 4096 bytes; name fewer users");
  return token;
}

Result<Grant> verify(std::string_view token, const KeyRing& keys, UnixTime now) {
  if (token.size() > wire::kMaxToken) return refused("the token is larger than 4096 bytes");
  if (!looks_like_grant(token)) return refused("the token is not a grant of a form that this version knows");
  Parts parts;
  if (!split(token, parts)) return refused("the grant is cut short or malformed");
  if (!keys.knows(parts.key_id)) return refused("the grant is signed with a key that this agent does not trust");
  std::string signature;
  if (!from_base64url(parts.signature, signature) || signature.size() != kSignatureSize ||
      !keys.verify(parts.key_id, parts.signed_text, signature))
    return refused("the grant's signature is wrong");
  std::string json;
  if (!from_base64url(parts.payload, json)) return refused("the grant is malformed");
  auto payload = wire::decode_grant_payload(json);
  if (!payload) return refused("the grant is malformed: " + payload.error().detail);
  auto grant = to_grant(parts.key_id, std::move(*payload));
  if (!grant) return grant;
  if (has_expired(*grant, now)) return refused("the grant has expired");
  if (grant->issued > now + kClockLeeway) return refused("the grant is not valid yet: are the clocks right?");
  if (auto right = check(*grant); !right) return refused(right.error().detail);
  return grant;
}

}  // namespace sandbar::grant
