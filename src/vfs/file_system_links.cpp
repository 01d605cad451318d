// SPDX-License-Identifier: Apache-2.0
// Symlinks as they are shown. The kernel here follows what we show, in this machine's tree: a target must not lead out
// of the mount, whatever a hostile sandbox does between the readlink and the walk. So what is shown is never absolute,
// and climbs only in front of all names and at most to the mount's root; the names behind are looked up in the mount,
// and each link among them is shown by the same rule. The agent tells where other targets lead; only the form of its
// answer is trusted.
#include <cerrno>

#include "base/link_target.h"
#include "base/thread_check.h"
#include "vfs/remote_file_system.h"
#include "wire/limits.h"

namespace sandbar::vfs {
namespace {

base::Bytes safe_target(const wire::ReadLink::Reply& reply, std::size_t depth) {
  if (base::stays_below(reply.target, depth)) return reply.target;
  if (reply.inside == "/") return base::climb(depth, "");
  if (!reply.inside.empty() && base::stays_below(reply.inside, 0)) return base::climb(depth, reply.inside);
  return base::confine(reply.target, depth);
}

Result<base::Bytes> checked(base::Bytes target) {
  if (target.size() >= wire::kMaxPath) return os_error(ENAMETOOLONG, "readlink");
  return target;
}

}  // namespace

OperationId RemoteFileSystem::read_link(const Caller& caller, NodeId id, Done<base::Bytes> done) {
  SANDBAR_ON_LOOP(loop_);
  const Node* node = inodes_.find(id);
  if (node == nullptr) return refuse(std::move(done), ESTALE, "readlink");
  wire::ReadLink request;
  request.object = node->object;
  if (!options_.safe_links)
    return ask_once(std::move(done), {.nodes = {id}, .files = {}}, context(caller), request, {},
                    [](auto&& answer) { return checked(std::move(answer.reply.target)); });
  Pins pins{.nodes = {id}, .files = {}};
  const NodeId parent = node->identity.link_in;
  const std::size_t depth = depth_of(parent);
  if (const Node* directory = inodes_.find(parent)) {
    request.directory = directory->object;
    request.top = inodes_.find(kRootNode)->object;
    request.depth = static_cast<std::uint32_t>(depth);
    pins.nodes.push_back(parent);
  }
  return ask_once(std::move(done), std::move(pins), context(caller), request, {}, [this, parent, depth](auto&& answer) {
    // The directory can have moved up meanwhile. (And down, which the kernel may not know yet.)
    return checked(safe_target(answer.reply, std::min(depth, depth_of(parent))));
  });
}

OperationId RemoteFileSystem::read_stored_link(const Caller& caller, NodeId parent, base::Bytes name,
                                               Done<base::Bytes> done) {
  int error = 0;
  const Node* directory = check_parent(parent, name, false, error);
  if (directory == nullptr) return refuse(std::move(done), error, "readlink");
  auto operation = begin(std::move(done), {.nodes = {parent}, .files = {}});
  operation->runs_on = true;
  const wire::ObjectId object = objects_.next();
  ask(operation, context(caller), wire::Lookup{directory->object, std::move(name), object}, {},
      [this, operation, caller, object](AnswerTo<wire::Lookup> found) {
        if (!found) {
          abandon(found.error(), object, {});
          return finish<base::Bytes>(*operation, std::move(found).error());
        }
        if (operation->finished) return objects_.release(object);
        ask(operation, context(caller), wire::ReadLink{object, {}, {}, 0}, {},
            [this, operation, object](AnswerTo<wire::ReadLink> answer) {
              objects_.release(object);
              if (!answer) return finish<base::Bytes>(*operation, std::move(answer).error());
              finish<base::Bytes>(*operation, checked(std::move(answer->reply.target)));
            });
      });
  return operation->id;
}

}  // namespace sandbar::vfs
