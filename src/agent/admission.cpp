// SPDX-License-Identifier: Apache-2.0
#include "agent/admission.h"

#include <utility>

#include "grant/token.h"

namespace sandbar::agent {
namespace {

/// Takes as long for a wrong first byte as for a wrong last one; the length is no secret.
bool same_token(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference =
        static_cast<unsigned char>(difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  return difference == 0;
}

}  // namespace

Result<Access> Admission::admit(std::string_view token) const {
  if (options_.token.empty() && !options_.grant_keys) return Access::everything("anybody");
  if (!options_.token.empty() && same_token(options_.token, token)) return Access::everything("token");
  if (!options_.grant_keys || !grant::looks_like_grant(token))
    return make_error(Errc::unauthorized, "", "the token is missing or wrong");
  auto grant = verify(token);
  if (!grant) return std::move(grant).error();
  return Access::of(std::move(*grant));
}

Result<void> Admission::authorize(Access& access, std::string_view token) const {
  auto other = admit(token);
  if (!other) return std::move(other).error();
  return access.add(*other, now());
}

Result<grant::Grant> Admission::verify(std::string_view token) const {
  auto grant = grant::verify(token, *options_.grant_keys, now());
  if (!grant) return make_error(Errc::unauthorized, "", grant.error().detail);
  if (!options_.sandbox.empty() && grant->sandbox != options_.sandbox)
    return make_error(Errc::unauthorized, "", "the grant is for another sandbox");
  return grant;
}

}  // namespace sandbar::agent
