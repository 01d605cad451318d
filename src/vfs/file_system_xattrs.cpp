// SPDX-License-Identifier: Apache-2.0
// Extended attributes.
#include <cerrno>
#include <optional>
#include <string>

#include "base/thread_check.h"
#include "vfs/posix_acl.h"
#include "vfs/remote_file_system.h"
#include "wire/limits.h"

namespace sandbar::vfs {
namespace {

/// On the root this prefix is ours: it says to other programs what is mounted here, which the sandbox must not be
/// able to forge. Not listed, so that `cp -a` and `rsync -X` do not try to copy it.
constexpr base::BytesView kOwnPrefix = "user.sandbar.";
constexpr base::BytesView kTarget = "user.sandbar.target";
constexpr base::BytesView kTokenFile = "user.sandbar.token-file";
constexpr base::BytesView kState = "user.sandbar.state";
constexpr base::BytesView kSession = "user.sandbar.session";
constexpr base::BytesView kCaFile = "user.sandbar.ca-file";
constexpr base::BytesView kInsecure = "user.sandbar.insecure";
constexpr base::BytesView kGrantCommand = "user.sandbar.grant-command";
/// The kernel asks for this one before each write, to know whether to clear file capabilities, and for the ACL before
/// it lets somebody in who is not the owner.
constexpr base::BytesView kCapability = "security.capability";

constexpr auto kNothing = [](auto&&) { return Result<void>{}; };

base::Bytes phase_text(client::ConnectionState::Phase phase) {
  switch (phase) {
    case client::ConnectionState::Phase::connected:
      return "connected";
    case client::ConnectionState::Phase::connecting:
      return "connecting";
    case client::ConnectionState::Phase::lost:
      break;
  }
  return "lost";
}

bool is_own(NodeId node, base::BytesView name) { return node == kRootNode && name.starts_with(kOwnPrefix); }

/// xattr(7): an empty name and a name that is too long are ERANGE.
int check_xattr_name(base::BytesView name) {
  if (name.empty() || name.size() > wire::kMaxXattrName) return ERANGE;
  return name.find('\0') != name.npos ? EINVAL : 0;
}

base::Bytes without_own(base::Bytes names) {
  base::Bytes kept;
  for (std::size_t start = 0; start < names.size();) {
    const std::size_t zero = names.find('\0', start);
    const std::size_t end = zero == names.npos ? names.size() : zero + 1;
    const base::BytesView name = base::BytesView(names).substr(start, end - start);
    if (!name.starts_with(kOwnPrefix)) kept += name;
    start = end;
  }
  return kept;
}

}  // namespace

OperationId RemoteFileSystem::get_xattr(const Caller& caller, NodeId id, base::Bytes name, Done<base::Bytes> done) {
  SANDBAR_ON_LOOP(loop_);
  const Node* node = inodes_.find(id);
  if (node == nullptr) return refuse(std::move(done), ESTALE, "getxattr");
  if (const int error = check_xattr_name(name)) return refuse(std::move(done), error, "getxattr");
  if (is_own(id, name)) {
    std::optional<base::Bytes> own = own_xattr(name);
    if (!own) return refuse(std::move(done), ENODATA, "getxattr");
    return answer<base::Bytes>(std::move(done), std::move(*own));
  }
  const bool is_acl = is_posix_acl(name);
  if ((name == kCapability || is_acl) && !node->attributes.has_xattrs && !node->xattrs_set)
    return refuse(std::move(done), ENODATA, "getxattr");
  wire::GetXattr request{node->object, std::move(name)};
  if (is_acl) return get_acl(caller, id, std::move(request), std::move(done));
  return ask_once(std::move(done), {.nodes = {id}, .files = {}}, context(caller), std::move(request), {},
                  [](auto&& answer) -> Result<base::Bytes> { return std::move(answer.body); });
}

std::optional<base::Bytes> RemoteFileSystem::own_xattr(base::BytesView name) const {
  if (name == kTarget) return options_.target;
  if (name == kTokenFile && !options_.token_file.empty()) return options_.token_file;
  if (name == kGrantCommand && !options_.grant_command.empty()) return options_.grant_command;
  if (name == kCaFile && !options_.ca_file.empty()) return options_.ca_file;
  if (name == kInsecure && options_.insecure) return "1";
  const client::ConnectionState state = remote_.state();
  if (name == kState) return phase_text(state.phase);
  if (name == kSession)
    return "resumed=" + std::to_string(state.resumes) + " lost=" + std::to_string(state.sessions_lost);
  return std::nullopt;
}

OperationId RemoteFileSystem::get_acl(const Caller& caller, NodeId id, wire::GetXattr request, Done<base::Bytes> done) {
  auto operation = begin(std::move(done), {.nodes = {id}, .files = {}});
  ask(operation, context(caller), std::move(request), {}, [this, operation](AnswerTo<wire::GetXattr> answer) {
    if (operation->finished) return;
    if (answer) return finish<base::Bytes>(*operation, shown_acl(std::move(answer->body)));
    // The sandbox's file system has no ACLs. The kernel would fail each access check with this error (fuse_get_acl).
    const bool has_none = answer.error().code == Errc::os && answer.error().os_errno == EOPNOTSUPP;
    finish<base::Bytes>(*operation, has_none ? os_error(ENODATA, "getxattr") : std::move(answer).error());
  });
  return operation->id;
}

Result<base::Bytes> RemoteFileSystem::shown_acl(base::Bytes value) const {
  if (ids_.changes_nothing()) return value;
  auto shown = map_posix_acl(std::move(value), [this](bool is_group, std::uint32_t id) {
    return std::optional(is_group ? ids_.shown_gid(id) : ids_.shown_uid(id));
  });
  if (!shown) return make_error(Errc::protocol, "getxattr", shown.error().message());
  return shown;
}

Result<base::Bytes> RemoteFileSystem::remote_acl(base::Bytes value) const {
  if (ids_.changes_nothing()) return value;
  auto mapped = map_posix_acl(std::move(value), [this](bool is_group, std::uint32_t id) {
    return is_group ? ids_.remote_gid(id) : ids_.remote_uid(id);
  });
  if (!mapped) return os_error(EINVAL, "setxattr", mapped.error().message());
  return mapped;
}

OperationId RemoteFileSystem::set_xattr(const Caller& caller, NodeId id, base::Bytes name, base::Bytes value,
                                        std::uint32_t flags, Done<void> done) {
  SANDBAR_ON_LOOP(loop_);
  Node* node = inodes_.find(id);
  int error = check_xattr_name(name);
  if (error == 0 && is_own(id, name)) error = EPERM;
  if (error == 0 && value.size() > wire::kMaxXattrValue) error = E2BIG;
  if (error == 0 && options_.read_only) error = EROFS;
  if (error == 0 && node == nullptr) error = ESTALE;
  if (error == 0 && is_posix_acl(name)) {
    auto mapped = remote_acl(std::move(value));
    if (!mapped) return answer<void>(std::move(done), std::move(mapped).error());
    value = std::move(*mapped);
  }
  if (error != 0) return refuse(std::move(done), error, "setxattr");
  // From now on: it may be there as soon as the agent has the request.
  node->xattrs_set = true;
  return ask_once(std::move(done), {.nodes = {id}, .files = {}}, context(caller),
                  wire::SetXattr{node->object, std::move(name), flags}, std::move(value), kNothing);
}

OperationId RemoteFileSystem::list_xattr(const Caller& caller, NodeId id, Done<base::Bytes> done) {
  SANDBAR_ON_LOOP(loop_);
  const Node* node = inodes_.find(id);
  if (node == nullptr) return refuse(std::move(done), ESTALE, "listxattr");
  return ask_once(std::move(done), {.nodes = {id}, .files = {}}, context(caller), wire::ListXattr{node->object}, {},
                  [id](auto&& answer) -> Result<base::Bytes> {
                    return id == kRootNode ? without_own(std::move(answer.body)) : std::move(answer.body);
                  });
}

OperationId RemoteFileSystem::remove_xattr(const Caller& caller, NodeId id, base::Bytes name, Done<void> done) {
  SANDBAR_ON_LOOP(loop_);
  const Node* node = inodes_.find(id);
  int error = check_xattr_name(name);
  if (error == 0 && is_own(id, name)) error = EPERM;
  if (error == 0 && options_.read_only) error = EROFS;
  if (error == 0 && node == nullptr) error = ESTALE;
  if (error != 0) return refuse(std::move(done), error, "removexattr");
  return ask_once(std::move(done), {.nodes = {id}, .files = {}}, context(caller),
                  wire::RemoveXattr{node->object, std::move(name)}, {}, kNothing);
}

}  // namespace sandbar::vfs
