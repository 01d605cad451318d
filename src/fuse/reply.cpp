// SPDX-License-Identifier: Apache-2.0
#include "fuse/reply.h"

#include <cerrno>
#include <string>

#include "base/log.h"
#include "fuse/convert.h"
#include "fuse/ioctl.h"

namespace sandbar::fuse {
namespace {

/// The largest that getdents(2) makes the kernel ask for at once (fc->max_pages of ours).
constexpr std::size_t kLargestListing = 1024 * 1024;

fuse_file_info to_file_info(const vfs::Opened& opened) {
  fuse_file_info info{};
  info.fh = opened.file.value;
  info.keep_cache = opened.keep_cache ? 1 : 0;
  info.direct_io = opened.direct ? 1 : 0;
  return info;
}

}  // namespace

Reply::~Reply() {
  if (request_ == nullptr) return;
  if (!core_->closed()) base::log_error("a bug: the file system never answered a request: " + std::string(name_));
  fail(EIO);
}

fuse_req_t Reply::take() {
  fuse_req_t request = std::exchange(request_, nullptr);
  if (request == nullptr) return nullptr;
  if (!core_->closed()) {
    core_->answered(request);
    return request;
  }
  fuse_reply_none(request);  // frees it
  return nullptr;
}

void Reply::fail(const Error& error) {
  if (request_ == nullptr) return;
  fail(core_->closed() ? EIO : to_errno(error));
}

void Reply::fail(int os_errno) {
  answer([&](fuse_req_t request) { return fuse_reply_err(request, os_errno); });
}

void EmptyReply::ok() {
  answer([](fuse_req_t request) { return fuse_reply_err(request, 0); });
}

void EntryReply::ok(vfs::Entry entry) {
  const fuse_entry_param parameters = to_entry(entry);
  const bool taken = answer([&](fuse_req_t request) { return fuse_reply_entry(request, &parameters); });
  if (!taken && files() != nullptr) files()->forget(entry.node, 1);
}

void LookupReply::ok(vfs::Entry entry) {
  if (request() != nullptr && !core().closed())
    core().last_lookup.found(fuse_req_ctx(request())->pid, entry.node, {entry.attributes, entry.attributes_valid},
                             core().loop.now());
  EntryReply::ok(std::move(entry));
}

void AttributesReply::ok(const vfs::Stat& stat) {
  const struct stat attributes = to_stat(stat.attributes);
  answer([&](fuse_req_t request) { return fuse_reply_attr(request, &attributes, to_seconds(stat.valid)); });
}

void LinkTargetReply::ok(const base::Bytes& target) {
  // libfuse takes a C string; a target with a zero byte is a sandbox's lie, and half of it would be another target.
  if (target.find('\0') != base::Bytes::npos) return Reply::fail(EIO);
  answer([&](fuse_req_t request) { return fuse_reply_readlink(request, target.c_str()); });
}

void StoredLinkReply::ok(const base::Bytes& target) {
  StoredLink link{};
  if (target.size() >= sizeof link.target || target.find('\0') != base::Bytes::npos) return Reply::fail(EIO);
  target.copy(link.target, target.size());
  answer([&](fuse_req_t request) { return fuse_reply_ioctl(request, 0, &link, sizeof link); });
}

void OpenReply::ok(const vfs::Opened& opened) {
  const fuse_file_info info = to_file_info(opened);
  const bool taken = answer([&](fuse_req_t request) { return fuse_reply_open(request, &info); });
  if (!taken && files() != nullptr) files()->release(opened.file, std::nullopt);
}

void CreateReply::ok(const vfs::Created& created) {
  const fuse_entry_param parameters = to_entry(created.entry);
  const fuse_file_info info = to_file_info(created.opened);
  const bool taken = answer([&](fuse_req_t request) { return fuse_reply_create(request, &parameters, &info); });
  if (taken || files() == nullptr) return;
  files()->release(created.opened.file, std::nullopt);
  files()->forget(created.entry.node, 1);
}

void DataReply::ok(const base::Bytes& data) {
  if (data.size() > size_) return Reply::fail(EIO);
  answer([&](fuse_req_t request) { return fuse_reply_buf(request, data.data(), data.size()); });
}

void XattrReply::ok(const base::Bytes& value) {
  if (size_ != 0 && value.size() > size_) return Reply::fail(ERANGE);
  answer([&](fuse_req_t request) {
    return size_ == 0 ? fuse_reply_xattr(request, value.size()) : fuse_reply_buf(request, value.data(), value.size());
  });
}

void CountReply::ok(std::uint64_t count) {
  if (count > size_) return Reply::fail(EIO);
  answer([&](fuse_req_t request) { return fuse_reply_write(request, static_cast<std::size_t>(count)); });
}

void SeekReply::ok(std::uint64_t offset) {
  answer([&](fuse_req_t request) { return fuse_reply_lseek(request, static_cast<off_t>(offset)); });
}

void StatFsReply::ok(const vfs::StatFs& stat) {
  const struct statvfs result = to_statvfs(stat);
  answer([&](fuse_req_t request) { return fuse_reply_statfs(request, &result); });
}

void LockReply::ok(const vfs::LockHolder& holder) {
  const struct flock lock = to_flock(holder);
  answer([&](fuse_req_t request) { return fuse_reply_lock(request, &lock); });
}

ListBuffer::ListBuffer(fuse_req_t request, std::size_t size, bool plus)
    : request_(request), plus_(plus), bytes_(std::min(size, kLargestListing), '\0') {}

bool ListBuffer::add(const vfs::Listed& entry) {
  char* const at = bytes_.data() + used_;
  const std::size_t room = bytes_.size() - used_;
  // libfuse returns the size that is needed, and writes nothing where that is more than there is.
  const std::size_t size = plus_ ? add_plus(at, room, entry) : add_plain(at, room, entry);
  if (size > room) return false;
  used_ += size;
  if (plus_ && entry.entry) counted_.push_back(entry.entry->node);
  return true;
}

std::size_t ListBuffer::add_plain(char* at, std::size_t room, const vfs::Listed& entry) const {
  struct stat attributes {};
  attributes.st_ino = entry.inode;
  attributes.st_mode = entry.type;
  return fuse_add_direntry(request_, at, room, entry.name.c_str(), &attributes, static_cast<off_t>(entry.cookie));
}

std::size_t ListBuffer::add_plus(char* at, std::size_t room, const vfs::Listed& entry) const {
  fuse_entry_param parameters{};  // node 0: the kernel takes the name and counts no lookup
  if (entry.entry) parameters = to_entry(*entry.entry);
  parameters.attr.st_ino = entry.inode;
  if (!entry.entry) parameters.attr.st_mode = entry.type;
  return fuse_add_direntry_plus(request_, at, room, entry.name.c_str(), &parameters, static_cast<off_t>(entry.cookie));
}

void ListReply::ok() {
  const base::BytesView packed = buffer_->packed();
  const bool taken = answer([&](fuse_req_t request) { return fuse_reply_buf(request, packed.data(), packed.size()); });
  if (taken || files() == nullptr) return;
  for (const vfs::NodeId node : buffer_->counted()) files()->forget(node, 1);
}

void ListReply::fail(const Error& error) {
  if (buffer_->packed().empty()) return Reply::fail(error);
  ok();
}

}  // namespace sandbar::fuse
