// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>

#include "fuse/callbacks.h"
#include "fuse/ioctl.h"

/// Finding, making, renaming and removing names.
namespace sandbar::fuse {
namespace {

using vfs::NodeId;

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  start(LookupReply(request, "lookup"), [&](Core& core, auto done) {
    return core.files->lookup(core.caller_of(request), NodeId(parent), name, std::move(done));
  });
}

void on_forget(fuse_req_t request, fuse_ino_t node, std::uint64_t count) {
  Core& core = core_of(request);
  if (!core.closed()) core.files->forget(NodeId(node), count);
  fuse_reply_none(request);
}

void on_forget_multi(fuse_req_t request, std::size_t count, fuse_forget_data* forgets) {
  Core& core = core_of(request);
  for (std::size_t i = 0; i < count && !core.closed(); ++i)
    core.files->forget(NodeId(forgets[i].ino), forgets[i].nlookup);
  fuse_reply_none(request);
}

void on_readlink(fuse_req_t request, fuse_ino_t node) {
  start(LinkTargetReply(request, "readlink"), [&](Core& core, auto done) {
    return core.files->read_link(core.caller_of(request), NodeId(node), std::move(done));
  });
}

void on_ioctl(fuse_req_t request, fuse_ino_t node, unsigned command, void* /*argument*/, fuse_file_info* /*info*/,
              unsigned flags, const void* in, std::size_t in_size, std::size_t out_size) {
  StoredLinkReply reply(request, "ioctl");
  if (command != kStoredLink || (flags & FUSE_IOCTL_DIR) == 0) return reply.fail(ENOTTY);
  StoredLink link{};
  if (in_size != sizeof link || out_size < sizeof link) return reply.fail(EINVAL);
  std::memcpy(&link, in, sizeof link);
  start(std::move(reply), [&](Core& core, auto done) {
    base::Bytes name(link.name, ::strnlen(link.name, sizeof link.name));
    return core.files->read_stored_link(core.caller_of(request), NodeId(node), std::move(name), std::move(done));
  });
}

void on_mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  start(EntryReply(request, "mknod"), [&](Core& core, auto done) {
    return core.files->make_node(core.caller_of(request), NodeId(parent), name, mode, device, std::move(done));
  });
}

void on_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  start(EntryReply(request, "mkdir"), [&](Core& core, auto done) {
    return core.files->make_directory(core.caller_of(request), NodeId(parent), name, mode, std::move(done));
  });
}

void on_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  start(EntryReply(request, "symlink"), [&](Core& core, auto done) {
    return core.files->make_symlink(core.caller_of(request), NodeId(parent), name, target, std::move(done));
  });
}

void on_link(fuse_req_t request, fuse_ino_t node, fuse_ino_t new_parent, const char* new_name) {
  start(EntryReply(request, "link"), [&](Core& core, auto done) {
    return core.files->make_link(core.caller_of(request), NodeId(node), NodeId(new_parent), new_name, std::move(done));
  });
}

void on_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  start(EmptyReply(request, "unlink"), [&](Core& core, auto done) {
    return core.files->unlink(core.caller_of(request), NodeId(parent), name, std::move(done));
  });
}

void on_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  start(EmptyReply(request, "rmdir"), [&](Core& core, auto done) {
    return core.files->remove_directory(core.caller_of(request), NodeId(parent), name, std::move(done));
  });
}

void on_rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
               unsigned flags) {
  start(EmptyReply(request, "rename"), [&](Core& core, auto done) {
    return core.files->rename(core.caller_of(request), NodeId(parent), name, NodeId(new_parent), new_name, flags,
                              std::move(done));
  });
}

}  // namespace

void add_name_operations(fuse_lowlevel_ops& table) {
  table.lookup = on_lookup;
  table.forget = on_forget;
  table.forget_multi = on_forget_multi;
  table.readlink = on_readlink;
  table.ioctl = on_ioctl;
  table.mknod = on_mknod;
  table.mkdir = on_mkdir;
  table.symlink = on_symlink;
  table.link = on_link;
  table.unlink = on_unlink;
  table.rmdir = on_rmdir;
  table.rename = on_rename;
}

}  // namespace sandbar::fuse
