// SPDX-License-Identifier: Apache-2.0
#include "agent/state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace sandbar::agent {
namespace {

constexpr std::size_t kIdBytes = 16;
constexpr const char* kFile = "agent";
constexpr const char* kNewFile = "agent.new";
constexpr const char* kLockFile = "lock";
/// "id HEX\nepoch N\n" with the longest numbers is 64 bytes; a larger file is not ours.
constexpr std::size_t kMaxFile = 128;

struct Record {
  std::string id;
  std::uint64_t epoch = 0;
};

std::string what(const std::string& folder) { return "use state folder " + base::printable(folder); }

Result<base::UniqueFd> open_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) < 0 && errno != EEXIST) return os_error(errno, what(folder));
  base::UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error(errno, what(folder));
  struct stat attributes {};
  if (::fstat(fd.get(), &attributes) < 0) return os_error(errno, what(folder));
  if ((attributes.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return make_error(Errc::invalid, what(folder), "others may write to it; run: chmod 700 " + base::printable(folder));
  return fd;
}

Result<base::UniqueFd> lock_folder(int folder_fd, const std::string& folder) {
  base::UniqueFd lock(::openat(folder_fd, kLockFile, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return os_error(errno, what(folder));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return os_error(errno, what(folder));
  return make_error(Errc::invalid, what(folder), "another agent uses it; stop that one, or give this one its own");
}

bool is_id(std::string_view text) {
  return text.size() == 2 * kIdBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// False for anything but exactly what write_record() writes.
bool parse(std::string_view text, Record& into) {
  constexpr std::string_view kId = "id ";
  constexpr std::string_view kEpoch = "\nepoch ";
  if (!text.starts_with(kId)) return false;
  text.remove_prefix(kId.size());
  into.id = text.substr(0, 2 * kIdBytes);
  if (!is_id(into.id)) return false;
  text.remove_prefix(2 * kIdBytes);
  if (!text.starts_with(kEpoch)) return false;
  text.remove_prefix(kEpoch.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into.epoch);
  return error == std::errc() && into.epoch > 0 && into.epoch < UINT64_MAX && text.substr(end - text.data()) == "\n";
}

/// An epoch of 0 where there is no record yet.
Result<Record> read_record(int folder_fd, const std::string& folder) {
  base::UniqueFd fd(::openat(folder_fd, kFile, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ENOENT) return Record{base::hex(base::random_bytes(kIdBytes)), 0};
  if (!fd) return os_error(errno, what(folder), kFile);
  std::array<char, kMaxFile + 1> text{};
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  if (got < 0) return os_error(errno, what(folder), kFile);
  Record record;
  if (!parse(std::string_view(text.data(), static_cast<std::size_t>(got)), record))
    return make_error(Errc::invalid, what(folder),
                      "its file \"agent\" is damaged; remove that file to start as a new agent");
  return record;
}

/// Whole or not at all, also over a power loss: the new file is on the disk before it takes the old one's name, and the
/// name before we go on.
Result<void> write_record(int folder_fd, const std::string& folder, const Record& record) {
  const std::string text = "id " + record.id + "\nepoch " + std::to_string(record.epoch) + "\n";
  base::UniqueFd fd(::openat(folder_fd, kNewFile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return os_error(errno, what(folder), kNewFile);
  const ssize_t wrote = ::write(fd.get(), text.data(), text.size());
  if (wrote != static_cast<ssize_t>(text.size())) return os_error(wrote < 0 ? errno : ENOSPC, what(folder), kNewFile);
  if (::fsync(fd.get()) < 0) return os_error(errno, what(folder), kNewFile);
  if (::renameat(folder_fd, kNewFile, folder_fd, kFile) < 0) return os_error(errno, what(folder), kFile);
  if (::fsync(folder_fd) < 0) return os_error(errno, what(folder));
  return {};
}

Result<std::shared_ptr<JournalStore>> open_journals(int folder_fd, const std::string& folder) {
  base::UniqueFd own(::fcntl(folder_fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return os_error(errno, what(folder));
  auto journals = JournalStore::open(std::move(own));
  if (journals) return journals;
  Error error = std::move(journals).error();
  error.operation = what(folder) + ": " + error.operation;
  return error;
}

}  // namespace

State State::temporary() {
  State state;
  state.id_ = base::hex(base::random_bytes(kIdBytes));
  state.held_ = std::make_unique<Held>(Held{{}, {}, std::make_shared<JournalStore>()});
  return state;
}

Result<State> State::open(const std::string& folder) {
  auto folder_fd = open_folder(folder);
  if (!folder_fd) return std::move(folder_fd).error();
  auto lock = lock_folder(folder_fd->get(), folder);
  if (!lock) return std::move(lock).error();
  auto record = read_record(folder_fd->get(), folder);
  if (!record) return std::move(record).error();
  ++record->epoch;
  if (auto written = write_record(folder_fd->get(), folder, *record); !written) return std::move(written).error();
  auto journals = open_journals(folder_fd->get(), folder);
  if (!journals) return std::move(journals).error();
  State state;
  state.id_ = record->id;
  state.epoch_ = record->epoch;
  state.held_ = std::make_unique<Held>(Held{std::move(*folder_fd), std::move(*lock), std::move(*journals)});
  return state;
}

}  // namespace sandbar::agent
