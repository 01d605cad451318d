// SPDX-License-Identifier: Apache-2.0
#include "fuse/callbacks.h"

/// Open directories.
namespace sandbar::fuse {
namespace {

using vfs::FileId;
using vfs::NodeId;

void on_opendir(fuse_req_t request, fuse_ino_t node, fuse_file_info* /*info*/) {
  start(OpenReply(request, "opendir"), [&](Core& core, auto done) {
    return core.files->open_directory(core.caller_of(request), NodeId(node), std::move(done));
  });
}

void list(fuse_req_t request, std::size_t size, off_t offset, fuse_file_info* info, bool plus) {
  ListReply reply(request, plus ? "readdirplus" : "readdir", size, plus);
  vfs::ListSink& sink = reply.sink();
  start(std::move(reply), [&](Core& core, auto done) {
    return core.files->list(core.caller_of(request), FileId(info->fh), static_cast<std::uint64_t>(offset), plus, sink,
                            std::move(done));
  });
}

void on_readdir(fuse_req_t request, fuse_ino_t /*node*/, std::size_t size, off_t offset, fuse_file_info* info) {
  list(request, size, offset, info, false);
}

void on_readdirplus(fuse_req_t request, fuse_ino_t /*node*/, std::size_t size, off_t offset, fuse_file_info* info) {
  list(request, size, offset, info, true);
}

void on_releasedir(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info) {
  EmptyReply reply(request, "releasedir");
  if (!reply.core().closed()) reply.core().files->release(FileId(info->fh), std::nullopt);
  reply.ok();
}

void on_fsyncdir(fuse_req_t request, fuse_ino_t /*node*/, int data_only, fuse_file_info* info) {
  start(EmptyReply(request, "fsyncdir"),
        [&](Core& core, auto done) { return core.files->fsync(FileId(info->fh), data_only != 0, std::move(done)); });
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& table) {
  table.opendir = on_opendir;
  table.readdir = on_readdir;
  table.readdirplus = on_readdirplus;
  table.releasedir = on_releasedir;
  table.fsyncdir = on_fsyncdir;
}

}  // namespace sandbar::fuse
