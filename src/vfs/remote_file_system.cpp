// SPDX-License-Identifier: Apache-2.0
#include "vfs/remote_file_system.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "base/thread_check.h"
#include "wire/limits.h"

namespace sandbar::vfs {
namespace {

constexpr wire::ObjectId kRootObject{1};

/// Told apart from that of earlier mounts of the same directory, whose node numbers an NFS server may still remember.
std::uint64_t random_generation() {
  std::uint32_t value = 0;
  const std::string bytes = base::random_bytes(sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return std::max<std::uint32_t>(value, 1);
}

}  // namespace

void FileSystem::open(base::Loop& loop, client::RemoteFs& remote, Options options,
                      base::OneShot<std::unique_ptr<FileSystem>> done) {
  wire::Attach request{kRootObject, options.directory};
  const client::CallOptions call{options.timeout};
  remote.call<wire::Attach>(
      {}, std::move(request), {}, call,
      [&loop, &remote, options = std::move(options),
       done = std::move(done)](Result<client::Answer<wire::AttributesReply>> answer) mutable {
        if (!answer) return done(std::move(answer).error());
        const Attributes& root = answer->reply.attributes;
        if (!S_ISDIR(root.mode)) {
          remote.call<wire::Release>({}, {{kRootObject}}, {}, {options.timeout},
                                     [](const Result<client::Answer<wire::EmptyReply>>&) {});
          return done(os_error(ENOTDIR, "attach to " + options.directory, "it is not a directory of the sandbox"));
        }
        done(std::unique_ptr<FileSystem>(
            std::make_unique<RemoteFileSystem>(loop, remote, std::move(options), kRootObject, root)));
      });
}

RemoteFileSystem::RemoteFileSystem(base::Loop& loop, client::RemoteFs& remote, Options options, wire::ObjectId root,
                                   const Attributes& attributes)
    : loop_(loop),
      remote_(remote),
      options_(std::move(options)),
      ids_(options_, remote.agent()),
      generation_(random_generation()),
      objects_(loop, remote, options_.timeout, wire::ObjectId(root.value + 1)),
      inodes_(objects_, root, attributes) {
  file_system_.block_size = file_system_.fragment_size = std::max<std::uint64_t>(attributes.block_size, 512);
  file_system_.name_max = wire::kMaxName;
}

RemoteFileSystem::~RemoteFileSystem() {
  SANDBAR_ON_LOOP(loop_);
  alive_.reset();
  for (const auto& operation : operations_.take_all()) {
    operation->finished = true;
    operation->fail(make_error(Errc::cancelled, "", "the file system is being unmounted"));
  }
}

void RemoteFileSystem::pin(const Pins& pins) {
  for (const NodeId id : pins.nodes)
    if (Node* node = inodes_.find(id)) inodes_.pin(*node);
  for (const FileId id : pins.files) ++files_.pinned(id).pins;
}

void RemoteFileSystem::settle(Operation& operation) {
  const Pins pins = std::exchange(operation.pins, {});
  for (const FileId id : pins.files) {
    OpenFile& file = files_.pinned(id);
    --file.pins;
    close_if_idle(file);
  }
  for (const NodeId id : pins.nodes) inodes_.unpin(id);
}

void RemoteFileSystem::on_failure(const Operation& operation, const Error& error) {
  if (error.code != Errc::os || error.os_errno != ESTALE) return;
  // One of the objects is not what its id was bound to any more: its inode number may be another's soon.
  const auto drop = [this](NodeId id) {
    if (Node* node = inodes_.find(id); node != nullptr && id != kRootNode) inodes_.drop_identity(*node);
  };
  for (const NodeId id : operation.pins.nodes) drop(id);
  for (const FileId id : operation.pins.files) drop(files_.pinned(id).node);
}

void RemoteFileSystem::interrupt(OperationId id, bool caller_is_dying) {
  SANDBAR_ON_LOOP(loop_);
  const auto operation = operations_.find(id);
  if (operation == nullptr || !(operation->lock_wait || caller_is_dying)) return;
  if (!operation->runs_on) {
    if (operation->calling) remote_.cancel(operation->call);
    return;
  }
  // Only the answer tells when what it binds can be released. Its caller does not wait for that.
  loop_.post([this, alive = std::weak_ptr(alive_), operation] {
    if (alive.expired() || std::exchange(operation->finished, true)) return;
    operations_.remove(operation->id);
    if (!operation->calling) settle(*operation);
    operation->fail(make_error(Errc::cancelled, "", "interrupted"));
  });
}

FileSystem::Counts RemoteFileSystem::counts() const {
  return {.nodes = inodes_.size(), .files = files_.size(), .operations = operations_.size()};
}

wire::RequestContext RemoteFileSystem::context(const Caller& caller) const {
  return {.caller = ids_.remote_caller(caller), .mutation = {}, .after = {}};
}

wire::RequestContext RemoteFileSystem::context(const OpenFile& file) {
  return {.caller = file.opener, .mutation = {}, .after = {}};
}

std::uint32_t RemoteFileSystem::body_limit() const {
  const std::uint64_t agent = remote_.agent().limits.max_body;
  return static_cast<std::uint32_t>(agent == 0 ? wire::kMaxBody : std::min<std::uint64_t>(agent, wire::kMaxBody));
}

}  // namespace sandbar::vfs
