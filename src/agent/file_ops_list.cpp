// SPDX-License-Identifier: Apache-2.0
// Listings: getdents64(2) in pages, with the entries' attributes.
#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "agent/file_ops.h"
#include "wire/dirents.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

constexpr std::size_t kReadBuffer = 32 * 1024;

/// One page being made.
class Page {
 public:
  Page(const FileJob& job, const wire::List& request)
      : job_(job), request_(request), limit_(std::min<std::size_t>(request.max_bytes, wire::kMaxBody)) {}

  /// False when the entry does not fit any more. One whose name the protocol cannot carry is left out: vfat and FUSE
  /// file systems have names of more than 255 bytes, and anybody in the sandbox may have made one.
  bool add(const dirent64& raw) {
    if (std::strlen(raw.d_name) > wire::kMaxName) return true;
    wire::DirEntry entry;
    entry.name = raw.d_name;
    entry.cookie = static_cast<std::uint64_t>(raw.d_off);
    entry.inode = raw.d_ino;
    entry.type = raw.d_type == DT_UNKNOWN ? 0 : DTTOIF(raw.d_type);
    Stat stat;
    const bool with_attributes = request_.attributes && fill_attributes(entry, stat);
    if (!outcome_.body.empty() && outcome_.body.size() + wire::dir_entry_size(entry) > limit_) return false;
    wire::append_dir_entry(outcome_.body, entry);
    // Not opened until it is used: a listing of 100,000 entries must not need as many descriptors.
    if (with_attributes)
      outcome_.objects.push_back(
          job_.root.objects().bind(stat, nullptr, job_.targets.file->object, std::move(entry.name)));
    return true;
  }

  [[nodiscard]] bool empty() const { return outcome_.body.empty(); }
  [[nodiscard]] FileOutcome take() { return std::move(outcome_); }

 private:
  bool fill_attributes(wire::DirEntry& entry, Stat& stat) {
    if (entry.name == "." || entry.name == "..") return false;
    const int directory = job_.targets.file->fd->get();
    Result<Stat> found = stat_entry(directory, entry.name);
    if (!found) return false;
    stat = std::move(found).value();
    find_entry_xattrs(directory, entry.name, stat.attributes);
    entry.type = stat.type();
    entry.attributes = stat.attributes;
    entry.object_offset = static_cast<std::uint32_t>(outcome_.objects.size());
    return true;
  }

  const FileJob& job_;
  const wire::List& request_;
  const std::size_t limit_;
  FileOutcome outcome_;
};

/// Adds the entries of one buffer; false when the page is full. The position is then in the middle of the buffer.
bool add_buffer(Page& page, OpenFile& file, const char* buffer, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    const auto* raw = reinterpret_cast<const dirent64*>(buffer + at);  // aligned by the kernel to 8 bytes
    if (!page.add(*raw)) return false;
    file.list_position = static_cast<std::uint64_t>(raw->d_off);
    at += raw->d_reclen;
  }
  return true;
}

}  // namespace

FileResult perform(const FileJob& job, const wire::List& request) {
  if (request.attributes && !request.first_object) return os_error(EINVAL, "list");
  OpenFile& file = *job.targets.file;
  if (!S_ISDIR(file.object->type())) return os_error(ENOTDIR, "list");
  if (!job.root.holds(file.fd->get())) return os_error(ESTALE, "list", "it was moved out of the served directory");
  std::lock_guard lock(file.position_mutex);
  // A start anew always seeks: that makes the kernel look at the directory as it is now.
  if (request.cookie == 0 || file.list_position != request.cookie) {
    file.list_position = OpenFile::kUnknownPosition;
    if (::lseek(file.fd->get(), static_cast<off_t>(request.cookie), SEEK_SET) < 0) return os_error(errno, "list");
  }
  Page page(job, request);
  alignas(dirent64) char buffer[kReadBuffer];
  for (;;) {
    const long got = ::syscall(SYS_getdents64, file.fd->get(), buffer, sizeof buffer);
    if (got < 0 && page.empty()) return os_error(errno, "list");
    if (got <= 0) break;
    if (!add_buffer(page, file, buffer, static_cast<std::size_t>(got))) {
      file.list_position = OpenFile::kUnknownPosition;
      break;
    }
  }
  return page.take();
}

}  // namespace sandbar::agent
