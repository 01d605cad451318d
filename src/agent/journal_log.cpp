// SPDX-License-Identifier: Apache-2.0
#include "agent/journal_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

namespace sandbar::agent {
namespace {

constexpr const char* kFile = "journals";
constexpr const char* kNewFile = "journals.new";
constexpr std::size_t kPiece = 256 * 1024;
constexpr std::size_t kBootIdLength = 36;

/// Another one after each start of the machine. Empty where the kernel does not say: then each start may be one.
std::string boot_id() {
  const base::UniqueFd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, kBootIdLength> text{};
  if (!fd || ::read(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return {};
  return {text.data(), text.size()};
}

Error log_error(int error) { return os_error(error, "record a mutation", "in the state folder"); }

/// All of it; the errno otherwise, or 0.
int write_all(int fd, base::BytesView bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return wrote < 0 ? errno : ENOSPC;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return 0;
}

Error not_ours(const char* why) {
  return make_error(Errc::invalid, "read its file \"journals\"",
                    std::string(why) +
                        "; remove that file to go on without: the results of earlier mutations are "
                        "not known then");
}

}  // namespace

Result<JournalLog::Loaded> JournalLog::load(base::Function<void(JournalRecord)> record) const {
  const base::UniqueFd fd(::openat(folder_.get(), kFile, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ENOENT) return Loaded{};
  if (!fd) return os_error(errno, "read its file \"journals\"");
  JournalRecordReader reader;
  base::Bytes piece(kPiece, '\0');
  bool first = true;
  bool closed = false;
  std::string boot;
  for (bool more = true; more;) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0) return os_error(errno, "read its file \"journals\"");
    more = got > 0;
    if (more)
      reader.feed(base::BytesView(piece).substr(0, static_cast<std::size_t>(got)));
    else
      reader.end();
    while (auto next = reader.next()) {
      const bool opened = next->type == JournalRecordType::opened;
      if (first && (!opened || reader.damaged() != 0)) return not_ours("it is damaged");
      if (opened && next->number != kVersion) return not_ours("it is another version's");
      if (first) boot = std::move(next->id);
      first = false;
      closed = next->type == JournalRecordType::closed;
      record(std::move(*next));
    }
  }
  if (first && reader.torn() != 0) return not_ours("it is damaged");
  return Loaded{reader.damaged(), reader.torn(), !first && !closed && (boot.empty() || boot != boot_id())};
}

Result<void> JournalLog::rewrite(const base::Bytes& records) {
  base::Bytes front;
  append_journal_record(front, {JournalRecordType::opened, 0, kVersion, boot_id(), {}, false, {}});
  if (front.size() + records.size() > kMaxFile) return log_error(EFBIG);
  base::UniqueFd fd(
      ::openat(folder_.get(), kNewFile, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return log_error(errno);
  int error = write_all(fd.get(), front);
  if (error == 0) error = write_all(fd.get(), records);
  if (error == 0 && ::fsync(fd.get()) != 0) error = errno;
  if (error == 0 && ::renameat(folder_.get(), kNewFile, folder_.get(), kFile) != 0) error = errno;
  if (error != 0) {
    ::unlinkat(folder_.get(), kNewFile, 0);
    return log_error(error);
  }
  // The new file is the one already; should this fail it is the old one again after a power loss, as if we had not come
  // here.
  (void)::fsync(folder_.get());
  file_ = std::move(fd);
  size_ = front.size() + records.size();
  reserved_ = size_;
  broken_ = false;
  reserve();
  return {};
}

/// Best effort: a file system without fallocate(2) has no reserve.
void JournalLog::reserve() {
  if (size_ + kReserve / 2 <= reserved_) return;
  reserved_ = size_ + kReserve;
  (void)::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size_), static_cast<off_t>(kReserve));
}

Result<void> JournalLog::append(base::BytesView records) {
  if (!file_ || broken_) return log_error(EIO);
  if (size_ + records.size() > kMaxFile) return log_error(EFBIG);
  if (const int error = write_all(file_.get(), records); error != 0) {
    // Records behind half a one would be found, but it would count as damage.
    broken_ = ::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0;
    reserved_ = size_;
    return log_error(error);
  }
  size_ += records.size();
  reserve();
  return {};
}

Result<void> JournalLog::close() {
  if (!file_) return {};
  base::Bytes last;
  append_journal_record(last, {JournalRecordType::closed, 0, 0, {}, {}, false, {}});
  // Everything first: a record of an orderly end that is on the disk before what it vouches for would be a lie.
  if (::fsync(file_.get()) != 0) return log_error(errno);
  if (auto done = append(last); !done) return done;
  const bool synced = ::fsync(file_.get()) == 0;
  const int error = errno;
  file_.reset();
  return synced ? Result<void>() : log_error(error);
}

}  // namespace sandbar::agent
