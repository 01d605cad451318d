// SPDX-License-Identifier: Apache-2.0
#include "agent/access.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace sandbar::agent {
namespace {

using grant::Grant;
using grant::Kind;
using grant::UnixTime;

template <class T, class... Ts>
constexpr bool kIsOneOf = (std::is_same_v<T, Ts> || ...);

/// Each request by name: one that is new does not compile before somebody has decided what it needs.
template <class R>
constexpr Need need_of() {
  if constexpr (kIsOneOf<R, wire::Attach, wire::Lookup, wire::Restore, wire::Release, wire::GetAttributes,
                         wire::SetAttributes, wire::ReadLink, wire::MakeDirectory, wire::MakeNode, wire::MakeSymlink,
                         wire::MakeLink, wire::Unlink, wire::RemoveDirectory, wire::Rename, wire::Open, wire::Create,
                         wire::Close, wire::Read, wire::Write, wire::Fsync, wire::List, wire::StatFs, wire::GetXattr,
                         wire::SetXattr, wire::ListXattr, wire::RemoveXattr, wire::Lock, wire::TestLock, wire::Allocate,
                         wire::Seek, wire::CopyRange>) {
    return Need::files;
  } else if constexpr (kIsOneOf<R, wire::Spawn, wire::WaitProcess, wire::SignalProcess>) {
    return Need::shell;
  } else {
    static_assert(kIsOneOf<R, wire::Authorize>, "say what this request needs");
    return Need::nothing;
  }
}

Error refused(std::string why) { return make_error(Errc::unauthorized, "", std::move(why)); }

std::string text_of(Kind kind, std::uint16_t port) {
  std::string text(grant::kind_name(kind));
  return kind == Kind::port ? text + " " + std::to_string(port) : text;
}

bool is_of(const Grant& grant, Kind kind, std::uint16_t port) {
  return grant.kind == kind && (kind != Kind::port || grant.port == port);
}

/// The agent's own user comes with its own group, whatever its number.
bool allows(const Grant& grant, const wire::Caller& caller, const AgentIdentity& self) {
  const auto group = [&](std::uint32_t gid) {
    return grant::allows_group(grant, gid) || (caller.uid == self.uid && gid == self.gid);
  };
  return grant::allows_user(grant, caller.uid) && group(caller.gid) &&
         std::all_of(caller.groups.begin(), caller.groups.end(), group);
}

}  // namespace

Requirement requirement_of(const wire::RequestBody& body) {
  return std::visit(
      [](const auto& request) {
        using R = std::decay_t<decltype(request)>;
        Requirement requirement{need_of<R>(), kIsOneOf<R, wire::Release, wire::Close>};
        if constexpr (std::is_same_v<R, wire::Lock>) requirement.gives_back = request.type == wire::LockType::unlock;
        return requirement;
      },
      body);
}

Access Access::everything(std::string subject) {
  Access access;
  access.everything_ = true;
  access.subject_ = std::move(subject);
  return access;
}

Access Access::of(Grant grant) {
  Access access;
  access.subject_ = "grant/" + grant.subject;
  access.grants_.push_back(std::move(grant));
  return access;
}

Result<void> Access::add(Grant grant, UnixTime now) {
  if (everything_ || subject_ != "grant/" + grant.subject)
    return refused("the grant is of another subject than this session");
  // What the new one allows as well, and for longer.
  std::erase_if(grants_, [&](const Grant& old) {
    return old.kind == grant.kind && old.port == grant.port && old.uids == grant.uids && old.gids == grant.gids &&
           old.expires <= grant.expires;
  });
  if (grants_.size() >= kMaxSessionGrants)
    std::erase_if(grants_, [&](const Grant& old) { return grant::has_expired(old, now); });
  if (grants_.size() >= kMaxSessionGrants)
    return make_error(Errc::limit, "", "this session has " + std::to_string(kMaxSessionGrants) + " grants already");
  grants_.push_back(std::move(grant));
  return {};
}

Result<void> Access::add(const Access& other, UnixTime now) {
  if (subject_ != other.subject_) return refused("the token is of another subject than this session");
  for (const Grant& grant : other.grants_)
    if (auto added = add(grant, now); !added) return added;
  return {};
}

Result<void> Access::files(UnixTime now) const { return kind(Kind::files, 0, now); }
Result<void> Access::shell(UnixTime now) const { return kind(Kind::shell, 0, now); }
Result<void> Access::port(std::uint16_t number, UnixTime now) const { return kind(Kind::port, number, now); }

Result<void> Access::kind(Kind kind, std::uint16_t port, UnixTime now) const {
  if (everything_) return {};
  bool had_one = false;
  for (const Grant& grant : grants_) {
    if (!is_of(grant, kind, port)) continue;
    if (!grant::has_expired(grant, now)) return {};
    had_one = true;
  }
  if (had_one) return refused("this session's " + text_of(kind, port) + " grant has expired; a new one is needed");
  return refused("this session's grants allow " + kinds() + " only; a " + text_of(kind, port) + " grant is needed");
}

/// "files", "files and shell", "files, shell and port 80": each once.
std::string Access::kinds() const {
  std::vector<std::string> names;
  for (const Grant& grant : grants_) {
    std::string name = text_of(grant.kind, grant.port);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

Result<void> Access::identity(Kind kind, const std::optional<wire::Caller>& caller, const AgentIdentity& self,
                              UnixTime now) const {
  if (everything_) return {};
  const wire::Caller acting = caller ? *caller : wire::Caller{self.uid, self.gid, {}, 0};
  for (const Grant& grant : grants_)
    if (grant.kind == kind && !grant::has_expired(grant, now) && allows(grant, acting, self)) return {};
  return refused("this session's " + std::string(grant::kind_name(kind)) + " grant does not allow acting as uid " +
                 std::to_string(acting.uid) + ", gid " + std::to_string(acting.gid) +
                 (acting.groups.empty() ? "" : " and the other groups of the caller"));
}

Result<void> Access::check(const wire::Request& request, const AgentIdentity& self, UnixTime now) const {
  const Requirement requirement = requirement_of(request.body);
  if (everything_ || requirement.need == Need::nothing) return {};
  const Kind needed = requirement.need == Need::files ? Kind::files : Kind::shell;
  // At time 0 no grant has expired: one of this kind is all that giving back needs.
  const UnixTime when = requirement.gives_back ? 0 : now;
  if (auto allowed = kind(needed, 0, when); !allowed) return allowed;
  return identity(needed, request.context.caller, self, when);
}

}  // namespace sandbar::agent
