// SPDX-License-Identifier: Apache-2.0
#include "fuse/callbacks.h"

#include <linux/fuse.h>

#include "fuse/convert.h"

/// Starting, attributes, the whole file system.
namespace sandbar::fuse {
namespace {

/// One request carries up to 1 MiB: libfuse's largest, and the largest body of the protocol.
constexpr unsigned kMaxWrite = 1024 * 1024;
/// Asynchronous requests (read-ahead, direct I/O) that the kernel lets be under way before it holds further ones back.
/// Each may take a round trip: 12 would be 12 reads a round trip. For ordinary users the kernel has a limit of its own.
constexpr unsigned kMaxBackground = 512;

void set(fuse_conn_info& connection, unsigned capability, bool on) {
  if (on) {
    connection.want |= capability & connection.capable;
  } else {
    connection.want &= ~capability;
  }
}

void on_init(void* userdata, fuse_conn_info* connection) {
  Core& core = *static_cast<Core*>(userdata);
  connection->max_write = std::min(connection->max_write, kMaxWrite);
  connection->max_read = core.options.max_read;
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kMaxBackground / 4 * 3;
  for (const unsigned wanted :
       {FUSE_CAP_ASYNC_READ, FUSE_CAP_ASYNC_DIO, FUSE_CAP_PARALLEL_DIROPS, FUSE_CAP_ATOMIC_O_TRUNC,
        FUSE_CAP_READDIRPLUS, FUSE_CAP_READDIRPLUS_AUTO, FUSE_CAP_POSIX_LOCKS, FUSE_CAP_FLOCK_LOCKS,
        // The kernel checks ACLs; the sandbox's file system keeps them and the mode in step, and hands default ACLs
        // down. Those replace the umask, so that only it can apply the caller's.
        FUSE_CAP_POSIX_ACL, FUSE_CAP_DONT_MASK,
        // Nothing pushes invalidations yet: a changed size or time drops what the kernel has of the file.
        FUSE_CAP_AUTO_INVAL_DATA})
    set(*connection, wanted, true);
  for (const unsigned unwanted : {FUSE_CAP_WRITEBACK_CACHE,  // would not see the sandbox append
                                  FUSE_CAP_CACHE_SYMLINKS, FUSE_CAP_EXPORT_SUPPORT, FUSE_CAP_EXPLICIT_INVAL_DATA,
                                  FUSE_CAP_SPLICE_READ, FUSE_CAP_SPLICE_WRITE, FUSE_CAP_SPLICE_MOVE})
    set(*connection, unwanted, false);
  // HANDLE_KILLPRIV stays as libfuse has it: 3.14 never tells the kernel, which therefore clears setuid bits by a
  // setattr before the write.
  // libfuse 3.14 takes this capability and forgets to tell the kernel, which then lets one lookup or readdir at a time
  // into a directory: one a round trip.
  if ((connection->capable & FUSE_CAP_PARALLEL_DIROPS) != 0) core.add_to_init = FUSE_PARALLEL_DIROPS;
  core.started = true;
}

void on_getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  const vfs::FileId file(info != nullptr ? info->fh : 0);
  Core& core = core_of(request);
  if (!file)
    if (const auto stat = core.last_lookup.take(fuse_req_ctx(request)->pid, vfs::NodeId(node), core.loop.now()))
      return AttributesReply(request, "getattr").ok(*stat);
  start(AttributesReply(request, "getattr"), [&](Core& core, auto done) {
    return core.files->get_attributes(core.caller_of(request), vfs::NodeId(node), file, std::move(done));
  });
}

void on_setattr(fuse_req_t request, fuse_ino_t node, struct stat* attributes, int to_set, fuse_file_info* info) {
  const vfs::FileId file(info != nullptr ? info->fh : 0);
  start(AttributesReply(request, "setattr"), [&](Core& core, auto done) {
    return core.files->set_attributes(core.caller_of(request), vfs::NodeId(node), file, to_changes(*attributes, to_set),
                                      std::move(done));
  });
}

void on_statfs(fuse_req_t request, fuse_ino_t node) {
  start(StatFsReply(request, "statfs"), [&](Core& core, auto done) {
    return core.files->stat_fs(core.caller_of(request), vfs::NodeId(node), std::move(done));
  });
}

void on_setxattr(fuse_req_t request, fuse_ino_t node, const char* name, const char* value, std::size_t size,
                 int flags) {
  start(EmptyReply(request, "setxattr"), [&](Core& core, auto done) {
    return core.files->set_xattr(core.caller_of(request), vfs::NodeId(node), name, base::Bytes(value, size),
                                 static_cast<std::uint32_t>(flags), std::move(done));
  });
}

void on_getxattr(fuse_req_t request, fuse_ino_t node, const char* name, std::size_t size) {
  start(XattrReply(request, "getxattr", size), [&](Core& core, auto done) {
    return core.files->get_xattr(core.caller_of(request), vfs::NodeId(node), name, std::move(done));
  });
}

void on_listxattr(fuse_req_t request, fuse_ino_t node, std::size_t size) {
  start(XattrReply(request, "listxattr", size), [&](Core& core, auto done) {
    return core.files->list_xattr(core.caller_of(request), vfs::NodeId(node), std::move(done));
  });
}

void on_removexattr(fuse_req_t request, fuse_ino_t node, const char* name) {
  start(EmptyReply(request, "removexattr"), [&](Core& core, auto done) {
    return core.files->remove_xattr(core.caller_of(request), vfs::NodeId(node), name, std::move(done));
  });
}

}  // namespace

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops table{};
  table.init = on_init;
  table.getattr = on_getattr;
  table.setattr = on_setattr;
  table.statfs = on_statfs;
  table.setxattr = on_setxattr;
  table.getxattr = on_getxattr;
  table.listxattr = on_listxattr;
  table.removexattr = on_removexattr;
  add_name_operations(table);
  add_file_operations(table);
  add_directory_operations(table);
  return table;
}

}  // namespace sandbar::fuse
