// SPDX-License-Identifier: Apache-2.0
// Operations on names and inodes.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "base/thread_check.h"
#include "vfs/remote_file_system.h"
#include "wire/limits.h"

namespace sandbar::vfs {
namespace {

constexpr std::uint32_t kPermissions = 07777;
constexpr std::uint32_t kRenameFlags = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;

constexpr auto kNothing = [](auto&&) { return Result<void>{}; };

}  // namespace

int RemoteFileSystem::check_name(base::BytesView name) {
  if (name.size() > wire::kMaxName) return ENAMETOOLONG;
  if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos)
    return EINVAL;
  return 0;
}

Node* RemoteFileSystem::check_parent(NodeId parent, base::BytesView name, bool changes, int& error) {
  SANDBAR_ON_LOOP(loop_);
  Node* node = inodes_.find(parent);
  error = check_name(name);
  if (error == 0 && changes && options_.read_only) error = EROFS;
  if (error == 0 && node == nullptr) error = ESTALE;
  return error == 0 ? node : nullptr;
}

Attributes RemoteFileSystem::shown(const Node& node) const {
  Attributes attributes = node.attributes;
  attributes.inode = node.shown_inode;
  attributes.uid = ids_.shown_uid(attributes.uid);
  attributes.gid = ids_.shown_gid(attributes.gid);
  return attributes;
}

Entry RemoteFileSystem::entry(const Node& node) const {
  return {.node = node.id, .generation = generation_, .attributes = shown(node)};
}

Result<Stat> RemoteFileSystem::heard(NodeId id, const Attributes& attributes) {
  Node* node = inodes_.find(id);
  if (node == nullptr || !inodes_.update(*node, attributes)) return os_error(ESTALE, "stat");
  return Stat{.attributes = shown(*node)};
}

void RemoteFileSystem::abandon(const Error& error, wire::ObjectId object, wire::HandleId handle) {
  // A refusal binds nothing, and a session that is gone holds nothing.
  if (error.code == Errc::os || error.code == Errc::disconnected) return;
  if (handle) close_handle(handle);
  if (object) objects_.release(object);
}

template <class Req>
OperationId RemoteFileSystem::ask_entry(const Caller& caller, NodeId parent, Req request, Done<Entry> done) {
  auto operation = begin(std::move(done), {.nodes = {parent}, .files = {}});
  operation->runs_on = true;
  request.object = objects_.next();
  const wire::ObjectId object = request.object;
  ask(operation, context(caller), request, {},
      [this, operation, object, parent, name = request.name](AnswerTo<Req> answer) {
        if (!answer) {
          abandon(answer.error(), object, {});
          return finish<Entry>(*operation, std::move(answer).error());
        }
        if (operation->finished) return objects_.release(object);
        Node& node = inodes_.adopt(answer->reply.attributes, object, parent, name);
        inodes_.add_lookup(node);
        finish<Entry>(*operation, entry(node));
      });
  return operation->id;
}

OperationId RemoteFileSystem::lookup(const Caller& caller, NodeId parent, base::Bytes name, Done<Entry> done) {
  int error = 0;
  const Node* directory = check_parent(parent, name, false, error);
  if (directory == nullptr) return refuse(std::move(done), error, "lookup");
  return ask_entry(caller, parent, wire::Lookup{directory->object, std::move(name), {}}, std::move(done));
}

void RemoteFileSystem::forget(NodeId node, std::uint64_t count) {
  SANDBAR_ON_LOOP(loop_);
  inodes_.forget(node, count);
}

OperationId RemoteFileSystem::get_attributes(const Caller& caller, NodeId id, FileId file_id, Done<Stat> done) {
  SANDBAR_ON_LOOP(loop_);
  const Node* node = inodes_.find(id);
  if (node == nullptr) return refuse(std::move(done), ESTALE, "stat");
  // The kernel seldom names the file, even for fstat; an unlinked inode is reached for certain only through one.
  const OpenFile* file = files_.find(file_id);
  if (file == nullptr) file = files_.any_of(id);
  Pins pins{.nodes = {id}, .files = {}};
  if (file != nullptr) pins.files.push_back(file->id);
  const wire::GetAttributes request{node->object, file != nullptr ? file->handle : wire::HandleId{}};
  const OperationId operation = ask_once(std::move(done), std::move(pins), context(caller), request, {},
                                         [this, id](auto&& answer) { return heard(id, answer.reply.attributes); });
  if (id == kRootNode)
    answer_early<Stat>(operation, [this] { return heard(kRootNode, inodes_.find(kRootNode)->attributes); });
  return operation;
}

int RemoteFileSystem::fill_changes(const Changes& changes, wire::SetAttributes& request) const {
  if (changes.uid && !(request.uid = ids_.remote_uid(*changes.uid))) return EINVAL;
  if (changes.gid && !(request.gid = ids_.remote_gid(*changes.gid))) return EINVAL;
  if (changes.mode) request.mode = *changes.mode & kPermissions;
  request.size = changes.size;
  request.accessed = changes.accessed;
  request.modified = changes.modified;
  request.accessed_now = changes.accessed_now;
  request.modified_now = changes.modified_now;
  return 0;
}

bool RemoteFileSystem::only_clears_setid(const Caller& caller, const Node& node, const Changes& changes) const {
  if (!changes.mode || changes.uid || changes.gid || changes.size || changes.accessed || changes.modified ||
      changes.accessed_now || changes.modified_now || caller.uid == 0 || shown(node).uid == caller.uid)
    return false;
  const std::uint32_t had = node.attributes.mode & kPermissions;
  const std::uint32_t gone = had & ~*changes.mode;
  return (*changes.mode & kPermissions & ~had) == 0 && gone != 0 && (gone & ~std::uint32_t{S_ISUID | S_ISGID}) == 0;
}

OperationId RemoteFileSystem::set_attributes(const Caller& caller, NodeId id, FileId file_id, Changes changes,
                                             Done<Stat> done) {
  SANDBAR_ON_LOOP(loop_);
  const Node* node = inodes_.find(id);
  if (options_.read_only) return refuse(std::move(done), EROFS, "set attributes");
  if (node == nullptr) return refuse(std::move(done), ESTALE, "set attributes");
  wire::SetAttributes request;
  request.object = node->object;
  if (const int error = fill_changes(changes, request)) return refuse(std::move(done), error, "set attributes");
  // Only the caller's own file may truncate: another's would lend out the right to write.
  const OpenFile* file = files_.find(file_id);
  if (file == nullptr && !changes.size) file = files_.any_of(id);
  Pins pins{.nodes = {id}, .files = {}};
  if (file != nullptr) {
    request.handle = file->handle;
    pins.files.push_back(file->id);
  }
  wire::RequestContext as = only_clears_setid(caller, *node, changes) ? wire::RequestContext{} : context(caller);
  return ask_once(std::move(done), std::move(pins), std::move(as), std::move(request), {},
                  [this, id](auto&& answer) { return heard(id, answer.reply.attributes); });
}

OperationId RemoteFileSystem::make_node(const Caller& caller, NodeId parent, base::Bytes name, std::uint32_t mode,
                                        std::uint64_t device, Done<Entry> done) {
  int error = 0;
  const Node* directory = check_parent(parent, name, true, error);
  if (directory == nullptr) return refuse(std::move(done), error, "mknod");
  if ((mode & S_IFMT) == 0) mode |= S_IFREG;  // mknod(2)
  const bool is_device = S_ISCHR(mode) || S_ISBLK(mode);
  wire::MakeNode request{directory->object, std::move(name), mode, is_device ? device : 0, {}};
  return ask_entry(caller, parent, std::move(request), std::move(done));
}

OperationId RemoteFileSystem::make_directory(const Caller& caller, NodeId parent, base::Bytes name, std::uint32_t mode,
                                             Done<Entry> done) {
  int error = 0;
  const Node* directory = check_parent(parent, name, true, error);
  if (directory == nullptr) return refuse(std::move(done), error, "mkdir");
  wire::MakeDirectory request{directory->object, std::move(name), mode & kPermissions, {}};
  return ask_entry(caller, parent, std::move(request), std::move(done));
}

OperationId RemoteFileSystem::make_symlink(const Caller& caller, NodeId parent, base::Bytes name, base::Bytes target,
                                           Done<Entry> done) {
  int error = 0;
  const Node* directory = check_parent(parent, name, true, error);
  if (directory != nullptr && target.empty()) error = ENOENT;  // symlink(2)
  if (directory != nullptr && target.size() >= wire::kMaxPath) error = ENAMETOOLONG;
  if (error != 0) return refuse(std::move(done), error, "symlink");
  wire::MakeSymlink request{directory->object, std::move(name), std::move(target), {}};
  return ask_entry(caller, parent, std::move(request), std::move(done));
}

OperationId RemoteFileSystem::make_link(const Caller& caller, NodeId id, NodeId new_parent, base::Bytes new_name,
                                        Done<Entry> done) {
  int error = 0;
  const Node* directory = check_parent(new_parent, new_name, true, error);
  const Node* node = inodes_.find(id);
  if (directory != nullptr && node == nullptr) error = ESTALE;
  if (error != 0) return refuse(std::move(done), error, "link");
  wire::MakeLink request{node->object, directory->object, std::move(new_name)};
  return ask_once(std::move(done), {.nodes = {id, new_parent}, .files = {}}, context(caller), std::move(request), {},
                  [this, id](auto&& answer) -> Result<Entry> {
                    auto stat = heard(id, answer.reply.attributes);
                    if (!stat) return std::move(stat).error();
                    Node& linked = *inodes_.find(id);
                    inodes_.add_lookup(linked);
                    return entry(linked);
                  });
}

OperationId RemoteFileSystem::remove_name(const Caller& caller, NodeId parent, base::Bytes name, bool directory,
                                          Done<void> done) {
  int error = 0;
  const Node* node = check_parent(parent, name, true, error);
  if (node == nullptr) return refuse(std::move(done), error, directory ? "rmdir" : "unlink");
  Pins pins{.nodes = {parent}, .files = {}};
  if (directory)
    return ask_once(std::move(done), std::move(pins), context(caller),
                    wire::RemoveDirectory{node->object, std::move(name)}, {}, kNothing);
  return ask_once(std::move(done), std::move(pins), context(caller), wire::Unlink{node->object, std::move(name)}, {},
                  kNothing);
}

OperationId RemoteFileSystem::unlink(const Caller& caller, NodeId parent, base::Bytes name, Done<void> done) {
  return remove_name(caller, parent, std::move(name), false, std::move(done));
}

OperationId RemoteFileSystem::remove_directory(const Caller& caller, NodeId parent, base::Bytes name, Done<void> done) {
  return remove_name(caller, parent, std::move(name), true, std::move(done));
}

OperationId RemoteFileSystem::rename(const Caller& caller, NodeId parent, base::Bytes name, NodeId new_parent,
                                     base::Bytes new_name, std::uint32_t flags, Done<void> done) {
  int error = 0;
  const Node* from = check_parent(parent, name, true, error);
  const Node* to = error == 0 ? check_parent(new_parent, new_name, true, error) : nullptr;
  // What does not go together the sandbox's kernel says.
  if (error == 0 && (flags & ~kRenameFlags) != 0) error = EINVAL;
  const bool exchange = (flags & RENAME_EXCHANGE) != 0;
  if (error != 0) return refuse(std::move(done), error, "rename");
  const wire::Rename request{from->object, std::move(name), to->object, std::move(new_name), flags};
  return ask_once(std::move(done), {.nodes = {parent, new_parent}, .files = {}}, context(caller), request, {},
                  [this, request, parent, new_parent, exchange](auto&&) -> Result<void> {
                    inodes_.directories().renamed(parent, request.name, new_parent, request.new_name, exchange);
                    return {};
                  });
}

OperationId RemoteFileSystem::stat_fs(const Caller& caller, NodeId id, Done<StatFs> done) {
  SANDBAR_ON_LOOP(loop_);
  const Node* node = inodes_.find(id);
  if (node == nullptr) return refuse(std::move(done), ESTALE, "statfs");
  const OperationId operation =
      ask_once(std::move(done), {.nodes = {id}, .files = {}}, context(caller), wire::StatFs{node->object}, {},
               [this](auto&& answer) -> Result<StatFs> { return file_system_ = std::move(answer.reply); });
  if (id == kRootNode) answer_early<StatFs>(operation, [this] { return Result<StatFs>(file_system_); });
  return operation;
}

}  // namespace sandbar::vfs
