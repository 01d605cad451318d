// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fuse/callbacks.h"
#include "fuse/convert.h"

/// Open files.
namespace sandbar::fuse {
namespace {

using vfs::FileId;
using vfs::NodeId;

void on_open(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  start(OpenReply(request, "open"), [&](Core& core, auto done) {
    return core.files->open_file(core.caller_of(request), NodeId(node), static_cast<std::uint32_t>(info->flags),
                                 std::move(done));
  });
}

void on_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  start(CreateReply(request, "create"), [&](Core& core, auto done) {
    return core.files->create(core.caller_of(request), NodeId(parent), name, mode,
                              static_cast<std::uint32_t>(info->flags), std::move(done));
  });
}

void on_read(fuse_req_t request, fuse_ino_t /*node*/, std::size_t size, off_t offset, fuse_file_info* info) {
  start(DataReply(request, "read", size), [&](Core& core, auto done) {
    return core.files->read(FileId(info->fh), static_cast<std::uint64_t>(offset), static_cast<std::uint32_t>(size),
                            std::move(done));
  });
}

void on_write(fuse_req_t request, fuse_ino_t /*node*/, const char* bytes, std::size_t size, off_t offset,
              fuse_file_info* info) {
  // F_SETFL can set and clear O_APPEND. A page that was written by mmap has its own place, whoever's open file is
  // named.
  const bool append = (info->flags & O_APPEND) != 0 && info->writepage == 0;
  start(CountReply(request, "write", size), [&](Core& core, auto done) {
    return core.files->write(FileId(info->fh), static_cast<std::uint64_t>(offset), base::Bytes(bytes, size), append,
                             std::move(done));
  });
}

void on_flush(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info) {
  start(EmptyReply(request, "flush"),
        [&](Core& core, auto done) { return core.files->flush(FileId(info->fh), info->lock_owner, std::move(done)); });
}

void on_release(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info) {
  EmptyReply reply(request, "release");
  const auto flock_owner = info->flock_release != 0 ? std::optional<std::uint64_t>(info->lock_owner) : std::nullopt;
  if (!reply.core().closed()) reply.core().files->release(FileId(info->fh), flock_owner);
  reply.ok();
}

void on_fsync(fuse_req_t request, fuse_ino_t /*node*/, int data_only, fuse_file_info* info) {
  start(EmptyReply(request, "fsync"),
        [&](Core& core, auto done) { return core.files->fsync(FileId(info->fh), data_only != 0, std::move(done)); });
}

void on_getlk(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info, struct flock* lock) {
  start(LockReply(request, "getlk"), [&](Core& core, auto done) {
    return core.files->test_lock(FileId(info->fh), to_lock(*lock, info->lock_owner, false), std::move(done));
  });
}

void on_setlk(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info, struct flock* lock, int wait) {
  start(EmptyReply(request, "setlk"), [&](Core& core, auto done) {
    return core.files->set_lock(FileId(info->fh), to_lock(*lock, info->lock_owner, wait != 0), std::move(done));
  });
}

void on_flock(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info, int operation) {
  start(EmptyReply(request, "flock"), [&](Core& core, auto done) {
    return core.files->set_lock(FileId(info->fh), to_flock_request(operation, info->lock_owner), std::move(done));
  });
}

void on_fallocate(fuse_req_t request, fuse_ino_t /*node*/, int mode, off_t offset, off_t length, fuse_file_info* info) {
  start(EmptyReply(request, "fallocate"), [&](Core& core, auto done) {
    return core.files->allocate(FileId(info->fh), static_cast<std::uint32_t>(mode), static_cast<std::uint64_t>(offset),
                                static_cast<std::uint64_t>(length), std::move(done));
  });
}

void on_lseek(fuse_req_t request, fuse_ino_t /*node*/, off_t offset, int whence, fuse_file_info* info) {
  start(SeekReply(request, "lseek"), [&](Core& core, auto done) {
    return core.files->seek(FileId(info->fh), static_cast<std::uint64_t>(offset), static_cast<std::uint32_t>(whence),
                            std::move(done));
  });
}

/// The kernel's answer has room for 32 bits; copy_file_range(2) may do less than asked for.
void on_copy_file_range(fuse_req_t request, fuse_ino_t /*node*/, off_t from_offset, fuse_file_info* from,
                        fuse_ino_t /*to_node*/, off_t to_offset, fuse_file_info* to, std::size_t length,
                        int /*flags*/) {
  constexpr std::size_t kMost = 1U << 30;
  const std::size_t size = std::min(length, kMost);
  start(CountReply(request, "copy_file_range", size), [&](Core& core, auto done) {
    return core.files->copy_range(FileId(from->fh), static_cast<std::uint64_t>(from_offset), FileId(to->fh),
                                  static_cast<std::uint64_t>(to_offset), size, std::move(done));
  });
}

}  // namespace

void add_file_operations(fuse_lowlevel_ops& table) {
  table.open = on_open;
  table.create = on_create;
  table.read = on_read;
  table.write = on_write;
  table.flush = on_flush;
  table.release = on_release;
  table.fsync = on_fsync;
  table.getlk = on_getlk;
  table.setlk = on_setlk;
  table.flock = on_flock;
  table.fallocate = on_fallocate;
  table.lseek = on_lseek;
  table.copy_file_range = on_copy_file_range;
}

}  // namespace sandbar::fuse
