// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "wire/grant_heads.h"
#include "wire/head_codec.h"

namespace sandbar::wire {
namespace {

constexpr std::size_t kMaxKind = 16;

}  // namespace

void fields(auto& a, Of<GrantPayload> auto& m) {
  a.need("kind", Text{m.kind, kMaxKind});
  a.may("sandbox", Text{m.sandbox, kMaxGrantName});
  a.may("port", m.port);
  a.need("subject", Text{m.subject, kMaxGrantName});
  a.may("uids", m.uids);
  a.may("gids", m.gids);
  a.need("issued", m.issued);
  a.need("expires", m.expires);
}

void fields(auto& a, Of<GrantAnswer> auto& m) {
  a.may("url", Text{m.url, kMaxUrl});
  a.need("token", Text{m.token, kMaxToken});
  a.need("expires_at", m.expires_at);
  a.may("fetched_at", m.fetched_at);
}

base::Bytes encode_grant_payload(const GrantPayload& payload) { return write_head(payload); }

Result<GrantPayload> decode_grant_payload(base::BytesView json) {
  auto payload = read_head<GrantPayload>("read a grant", json);
  if (!payload) return payload;
  for (const auto* ids : {&payload->uids, &payload->gids})
    if (*ids && (*ids)->size() > kMaxGrantIds)
      return make_error(Errc::protocol, "read a grant", "uids or gids has too many elements");
  return payload;
}

base::Bytes encode_grant_answer(const GrantAnswer& answer) { return write_head(answer); }

Result<GrantAnswer> decode_grant_answer(base::BytesView json) {
  if (json.size() > kMaxGrantAnswer) return make_error(Errc::protocol, "read a grant's answer", "it is too long");
  return read_head<GrantAnswer>("read a grant's answer", json);
}

}  // namespace sandbar::wire
