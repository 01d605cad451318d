// SPDX-License-Identifier: Apache-2.0
// The loop, the choices, the comparisons.
#include "tester.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

namespace fsx {
namespace {

constexpr std::size_t kHistory = 50;
constexpr std::size_t kMaxHandles = 8;
/// So often everything is compared from both sides.
constexpr std::uint64_t kCheckEvery = 1000;
constexpr std::uint64_t kPage = 4096;
const std::array kDirectories{"one", "two", "three/below"};
constexpr int kNamesPerDirectory = 4;

std::string read_whole(int fd, std::uint64_t at_most) {
  std::string out(at_most, '\0');
  std::size_t have = 0;
  while (have < out.size()) {
    const ssize_t got = ::pread(fd, out.data() + have, out.size() - have, static_cast<off_t>(have));
    if (got < 0) throw Mismatch(std::string("pread: ") + std::strerror(errno));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  out.resize(have);
  return out;
}

}  // namespace

const std::vector<Tester::Kind> Tester::kKinds{
    {"create", 4, &Tester::create},
    {"open", 6, &Tester::open_again},
    {"close", 3, &Tester::close_one},
    {"rename", 4, &Tester::rename},
    {"exchange", 1, &Tester::exchange_directories},
    {"link", 2, &Tester::link},
    {"unlink", 3, &Tester::unlink},
    {"truncate", 2, &Tester::truncate_by_name},
    {"stat", 4, &Tester::stat_by_name},
    {"read", 20, &Tester::read},
    {"write", 14, &Tester::write},
    {"write-past-end", 4, &Tester::write_past_end},
    {"mapped-read", 6, &Tester::mapped_read},
    {"mapped-write", 6, &Tester::mapped_write},
    {"ftruncate", 4, &Tester::truncate},
    {"allocate", 2, &Tester::allocate},
    {"punch-hole", 2, &Tester::punch},
    {"zero-range", 2, &Tester::zero},
    {"copy-range", 4, &Tester::copy_range},
    {"seek", 3, &Tester::seek},
    {"sync", 1, &Tester::sync},
    {"fstat", 4, &Tester::stat_open},
};

Tester::Tester(Options options) : options_(std::move(options)), random_(options_.seed) {
  expect_ok(::mkdir(path(Side::mount, "three").c_str(), 0755), "mkdir");
  for (const char* directory : kDirectories) expect_ok(::mkdir(path(Side::mount, directory).c_str(), 0755), "mkdir");
}

Tester::~Tester() {
  while (!handles_.empty()) close_handle(handles_.size() - 1);
}

void Tester::run() {
  unsigned total = 0;
  for (const Kind& kind : kKinds) total += kind.weight;
  while (done_ < options_.operations) {
    std::uint64_t ticket = random_.below(total);
    const Kind* kind = kKinds.data();
    while (ticket >= kind->weight) ticket -= (kind++)->weight;
    if (!(this->*kind->perform)()) continue;
    ++counts_[kind->name];
    ++done_;
    if (done_ == options_.break_at) break_something();
    if (done_ % kCheckEvery == 0) check_everything();
  }
  check_everything();
  while (!handles_.empty()) close_handle(handles_.size() - 1);
  check_everything();
}

std::string Tester::history() const {
  std::string out;
  for (const std::string& line : history_) out += "  " + line + "\n";
  return out;
}

std::string Tester::summary() const {
  std::string out;
  for (const Kind& kind : kKinds) {
    const auto count = counts_.find(kind.name);
    out += std::string(out.empty() ? "" : " ") + kind.name + "=" +
           std::to_string(count == counts_.end() ? 0 : count->second);
  }
  return out;
}

void Tester::say(const char* format, ...) {
  std::array<char, 512> text{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  history_.push_back(std::to_string(done_ + 1) + " " + text.data());
  if (history_.size() > kHistory) history_.pop_front();
}

std::string Tester::describe(const Handle& handle) const {
  std::string text = "fd " + std::to_string(handle.fd) + (handle.side == Side::mount ? "" : " (served)") + " of file " +
                     std::to_string(handle.file->id) + " size " + std::to_string(handle.file->data.size());
  if ((handle.flags & O_APPEND) != 0) text += " append";
  return text;
}

// Choices.

Side Tester::any_side() { return options_.mutate && random_.one_in(2) ? Side::served : Side::mount; }

std::string Tester::any_name() {
  const char* directory = kDirectories.at(random_.below(kDirectories.size()));
  return std::string(directory) + "/n" + std::to_string(random_.below(kNamesPerDirectory));
}

std::string Tester::any_used_name() {
  if (names_.empty()) return "";
  return std::next(names_.begin(), static_cast<long>(random_.below(names_.size())))->first;
}

Handle* Tester::any_handle(int access) {
  if (handles_.empty()) return nullptr;
  const std::size_t first = random_.below(handles_.size());
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    Handle& handle = handles_[(first + i) % handles_.size()];
    const int mode = handle.flags & O_ACCMODE;
    if (mode == O_RDWR || mode == access) return &handle;
  }
  return nullptr;
}

/// Small or large, with ends on pages and beside them: where the mistakes are.
Tester::Range Tester::any_range(std::uint64_t limit) {
  Range range;
  range.begin = random_.below(limit + 1);
  range.length = 1 + random_.below(random_.one_in(2) ? kPage : random_.one_in(4) ? limit / 2 + 1 : 16 * kPage);
  if (random_.one_in(4)) range.begin -= range.begin % kPage;
  if (random_.one_in(4)) range.length += kPage - range.length % kPage;
  range.length = std::min(range.length, limit - range.begin);
  return range;
}

// The state as it should be, and the real one.

void Tester::store(File& file, std::uint64_t offset, const std::string& data) {
  if (data.empty()) return;
  if (offset + data.size() > file.data.size()) resize(file, offset + data.size());
  file.data.replace(offset, data.size(), data);
}

void Tester::set_name(const std::string& name, FilePtr file) {
  drop_name(name);
  ++file->links;
  names_[name] = std::move(file);
}

void Tester::drop_name(const std::string& name) {
  const auto place = names_.find(name);
  if (place == names_.end()) return;
  --place->second->links;
  names_.erase(place);
}

std::string Tester::path(Side side, const std::string& name) const {
  return (side == Side::mount ? options_.tree : options_.served) + "/" + name;
}

void Tester::add_handle(int fd, int flags, Side side, FilePtr file) {
  handles_.push_back(Handle{fd, flags, side, std::move(file), nullptr});
  if (handles_.size() > kMaxHandles) close_handle(random_.below(handles_.size()));
}

void Tester::close_handle(std::size_t index) {
  const Handle handle = handles_[index];
  handles_.erase(handles_.begin() + static_cast<long>(index));
  if (handle.view != nullptr) ::munmap(handle.view, options_.max_size);
  ::close(handle.fd);
  // close(2) writes what is left in the kernel's pages.
  if (handle.side == Side::mount) handle.file->unsynced = false;
}

/// What the tester is for, tried: a byte of a named file changes in the sandbox behind everybody's back.
void Tester::break_something() {
  for (const auto& [name, file] : names_) {
    if (file->data.empty()) continue;
    const int fd = ::open(path(Side::served, name).c_str(), O_WRONLY);
    const char other = static_cast<char>(~file->data[0]);
    expect_ok(::pwrite(fd, &other, 1, 0), "pwrite");
    ::close(fd);
    say("BROKE %s", name.c_str());
    return;
  }
  throw Mismatch("there was nothing to break: choose another operation");
}

// Comparisons.

void Tester::expect(bool good, const std::string& what) const {
  if (!good) throw Mismatch(what);
}

void Tester::expect_ok(long result, const char* call) const {
  if (result < 0) throw Mismatch(std::string(call) + ": " + std::strerror(errno));
}

void Tester::expect_errno(long result, int wanted, const char* call) const {
  if (result >= 0) throw Mismatch(std::string(call) + " succeeded; expected: " + std::strerror(wanted));
  if (errno != wanted)
    throw Mismatch(std::string(call) + ": " + std::strerror(errno) + "; expected: " + std::strerror(wanted));
}

void Tester::expect_data(const File& file, Range range, const std::string& got, const std::string& where) const {
  const std::string wanted = range.begin < file.data.size() ? file.data.substr(range.begin, range.length) : "";
  if (got == wanted) return;
  const std::size_t common = std::min(got.size(), wanted.size());
  const auto at = static_cast<std::size_t>(
      std::mismatch(got.begin(), got.begin() + static_cast<long>(common), wanted.begin()).first - got.begin());
  const auto first = static_cast<unsigned long long>(range.begin) + at;
  std::array<char, 400> text{};
  const auto byte = [](const std::string& in, std::size_t i) {
    return i < in.size() ? static_cast<unsigned char>(in[i]) : 0U;
  };
  std::snprintf(text.data(), text.size(),
                "file %llu %s: read at %llu: %zu bytes, expected %zu; they differ first at offset %llu (0x%llx): "
                "%02x, expected %02x",
                static_cast<unsigned long long>(file.id), where.c_str(), static_cast<unsigned long long>(range.begin),
                got.size(), wanted.size(), first, first, byte(got, at), byte(wanted, at));
  throw Mismatch(text.data());
}

void Tester::expect_stat(const File& file, const struct stat& found, const std::string& where) const {
  expect(static_cast<std::uint64_t>(found.st_size) == file.data.size(),
         where + ": size " + std::to_string(found.st_size) + ", expected " + std::to_string(file.data.size()));
  expect(found.st_nlink == file.links,
         where + ": " + std::to_string(found.st_nlink) + " links, expected " + std::to_string(file.links));
}

void Tester::expect_zeros(const File& file, std::uint64_t begin, std::uint64_t end) const {
  const auto from = file.data.begin() + static_cast<long>(begin);
  const auto to = file.data.begin() + static_cast<long>(std::min<std::uint64_t>(end, file.data.size()));
  const auto found = std::find_if(from, to, [](char c) { return c != 0; });
  expect(found == to, "there is data at " + std::to_string(found - file.data.begin()) +
                          " in what seek calls a hole from " + std::to_string(begin) + " to " + std::to_string(end));
}

void Tester::check_handle(const Handle& handle) {
  struct stat found {};
  expect_ok(::fstat(handle.fd, &found), "fstat");
  expect_stat(*handle.file, found, describe(handle));
  if ((handle.flags & O_ACCMODE) == O_WRONLY) return;
  expect_data(*handle.file, {0, options_.max_size}, read_whole(handle.fd, options_.max_size), describe(handle));
}

void Tester::check_file(Side side, const std::string& name, const File& file) {
  const std::string where = path(side, name);
  const int fd = ::open(where.c_str(), O_RDONLY | O_CLOEXEC);
  expect_ok(fd, ("open " + where).c_str());
  struct stat found {};
  const bool known = ::fstat(fd, &found) == 0;
  const std::string got = read_whole(fd, options_.max_size + 1);
  ::close(fd);
  expect(known, where + ": fstat");
  expect_stat(file, found, where);
  expect_data(file, {0, options_.max_size + 1}, got, where);
}

void Tester::check_listing(Side side) {
  for (const char* directory : kDirectories) {
    std::set<std::string> wanted;
    for (const auto& [name, file] : names_)
      if (name.rfind(std::string(directory) + "/", 0) == 0) wanted.insert(name.substr(std::strlen(directory) + 1));
    std::set<std::string> found;
    DIR* stream = ::opendir(path(side, directory).c_str());
    expect(stream != nullptr, "opendir " + path(side, directory));
    while (const dirent* entry = ::readdir(stream))
      if (entry->d_name[0] != '.') found.insert(entry->d_name);
    ::closedir(stream);
    expect(found == wanted, "the names in " + path(side, directory) + " are not the expected ones");
  }
}

void Tester::check_everything() {
  for (Handle& handle : handles_) {
    if (handle.side == Side::mount && handle.file->unsynced) flush(handle);
    check_handle(handle);
  }
  const bool both = !options_.served.empty();
  for (const Side side : {Side::mount, Side::served}) {
    if (side == Side::served && !both) continue;
    check_listing(side);
    for (const auto& [name, file] : names_) check_file(side, name, *file);
  }
}

}  // namespace fsx
