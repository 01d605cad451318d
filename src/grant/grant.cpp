// SPDX-License-Identifier: Apache-2.0
#include "grant/grant.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "wire/grant_heads.h"

namespace sandbar::grant {
namespace {

constexpr std::array<std::string_view, 3> kKindNames{"files", "shell", "port"};

/// Names go into logs, messages and lists: nothing in them may need quotes.
bool is_name(std::string_view text) {
  return text.size() <= wire::kMaxGrantName &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

bool lists(const std::optional<std::vector<std::uint32_t>>& ids, std::uint32_t id) {
  return !ids || std::find(ids->begin(), ids->end(), id) != ids->end();
}

Error wrong(const char* why) { return make_error(Errc::invalid, "check the grant", why); }

}  // namespace

std::string_view kind_name(Kind kind) noexcept { return kKindNames[static_cast<std::size_t>(kind)]; }

std::optional<Kind> kind_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kKindNames.size(); ++i)
    if (kKindNames[i] == name) return static_cast<Kind>(i);
  return std::nullopt;
}

UnixTime unix_now() noexcept { return std::time(nullptr); }

Result<void> check(const Grant& grant) {
  if ((grant.kind == Kind::port) != (grant.port != 0))
    return wrong("a grant of the kind port names one port, of 1 to 65535, and no other kind does");
  if (grant.subject.empty() || !is_name(grant.subject))
    return wrong("the subject must have 1 to 128 characters of ASCII, without spaces");
  if (!is_name(grant.sandbox)) return wrong("the sandbox must have at most 128 characters of ASCII, without spaces");
  if (grant.uids && grant.uids->empty()) return wrong("it allows no user");
  for (const auto* ids : {&grant.uids, &grant.gids})
    if (*ids && (*ids)->size() > wire::kMaxGrantIds) return wrong("it names more than 64 users or groups");
  if (grant.issued < 0 || grant.expires <= grant.issued) return wrong("it ends before it begins");
  if (grant.expires - grant.issued > kMaxLife) return wrong("it is good for more than 30 days");
  return {};
}

bool has_expired(const Grant& grant, UnixTime now) noexcept { return now >= grant.expires + kClockLeeway; }

bool allows_user(const Grant& grant, std::uint32_t uid) noexcept { return lists(grant.uids, uid); }

bool allows_group(const Grant& grant, std::uint32_t gid) noexcept {
  return lists(grant.gids ? grant.gids : grant.uids, gid);
}

}  // namespace sandbar::grant
