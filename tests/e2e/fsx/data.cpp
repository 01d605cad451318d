// SPDX-License-Identifier: Apache-2.0
// The operations on open files.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tester.h"

namespace fsx {
namespace {

using Number = unsigned long long;  // for printf

sigjmp_buf bus_error;

/// memcpy(3) from or to a mapping. False: SIGBUS, the kernel believes the file to be shorter.
bool copy_mapped(char* to, const char* from, std::size_t size) {
  struct sigaction jump {};
  struct sigaction before {};
  jump.sa_handler = [](int) { siglongjmp(bus_error, 1); };
  ::sigaction(SIGBUS, &jump, &before);
  const bool good = sigsetjmp(bus_error, 1) == 0;
  if (good) std::memcpy(to, from, size);
  ::sigaction(SIGBUS, &before, nullptr);
  return good;
}

}  // namespace

char* Tester::view_of(Handle& handle) {
  const int mode = handle.flags & O_ACCMODE;
  if (mode == O_WRONLY) return nullptr;
  if (handle.view == nullptr) {
    const int protection = mode == O_RDWR ? PROT_READ | PROT_WRITE : PROT_READ;
    void* view = ::mmap(nullptr, options_.max_size, protection, MAP_SHARED, handle.fd, 0);
    expect(view != MAP_FAILED, std::string("mmap: ") + std::strerror(errno));
    handle.view = static_cast<char*>(view);
  }
  // A mapping does not ask the sandbox at each access: what is changed there is seen once the attributes were.
  struct stat found {};
  if (options_.mutate) expect_ok(::fstat(handle.fd, &found), "fstat");
  return handle.view;
}

void Tester::flush(Handle& handle) {
  expect_ok(::fsync(handle.fd), "fsync");
  handle.file->unsynced = false;
}

bool Tester::read() {
  Handle* handle = any_handle(O_RDONLY);
  if (handle == nullptr) return false;
  const Range range = any_range(options_.max_size);
  say("read %s: %llu at %llu", describe(*handle).c_str(), Number(range.length), Number(range.begin));
  std::string got(range.length, '\0');
  const ssize_t count = ::pread(handle->fd, got.data(), got.size(), static_cast<off_t>(range.begin));
  expect_ok(count, "pread");
  got.resize(static_cast<std::size_t>(count));
  expect_data(*handle->file, range, got, describe(*handle));
  return true;
}

bool Tester::write() {
  Handle* handle = any_handle(O_WRONLY);
  if (handle == nullptr) return false;
  File& file = *handle->file;
  const bool append = (handle->flags & O_APPEND) != 0;
  Range range = any_range(std::min<std::uint64_t>(options_.max_size, file.data.size() + 4096));
  if (append) {  // pwrite(2) appends, too: its BUGS say so
    range.begin = file.data.size();
    range.length = std::min(range.length, options_.max_size - range.begin);
  }
  say("write %s: %llu at %llu", describe(*handle).c_str(), Number(range.length), Number(range.begin));
  const std::string data = random_.bytes(range.length);
  const auto offset = static_cast<off_t>(append && random_.one_in(2) ? 0 : range.begin);
  const ssize_t count = ::pwrite(handle->fd, data.data(), data.size(), offset);
  expect_ok(count, "pwrite");
  expect(static_cast<std::size_t>(count) == data.size(), "pwrite wrote " + std::to_string(count));
  store(file, range.begin, data);
  return true;
}

bool Tester::write_past_end() {
  Handle* handle = any_handle(O_WRONLY);
  if (handle == nullptr || (handle->flags & O_APPEND) != 0) return false;
  File& file = *handle->file;
  Range range = any_range(options_.max_size - file.data.size());
  range.begin += file.data.size();
  if (range.length == 0) return false;
  say("write past the end %s: %llu at %llu", describe(*handle).c_str(), Number(range.length), Number(range.begin));
  const std::string data = random_.bytes(range.length);
  const ssize_t count = ::pwrite(handle->fd, data.data(), data.size(), static_cast<off_t>(range.begin));
  expect_ok(count, "pwrite");
  expect(static_cast<std::size_t>(count) == data.size(), "pwrite wrote " + std::to_string(count));
  store(file, range.begin, data);
  return true;
}

bool Tester::mapped_read() {
  Handle* handle = any_handle(O_RDONLY);
  if (handle == nullptr || handle->file->data.empty()) return false;
  const Range range = any_range(handle->file->data.size());
  say("mapped read %s: %llu at %llu", describe(*handle).c_str(), Number(range.length), Number(range.begin));
  const char* view = view_of(*handle);
  std::string got(range.length, '\0');
  expect(copy_mapped(got.data(), view + range.begin, range.length), "SIGBUS within the file");
  expect_data(*handle->file, range, got, "mapped " + describe(*handle));
  return true;
}

bool Tester::mapped_write() {
  Handle* handle = any_handle(O_RDWR);
  if (handle == nullptr || handle->file->data.empty()) return false;
  File& file = *handle->file;
  const Range range = any_range(file.data.size());
  const std::uint64_t how = random_.below(8);
  say("mapped write %s: %llu at %llu%s", describe(*handle).c_str(), Number(range.length), Number(range.begin),
      how == 0 ? ", msync" : "");
  char* view = view_of(*handle);
  const std::string data = random_.bytes(range.length);
  expect(copy_mapped(view + range.begin, data.data(), data.size()), "SIGBUS within the file");
  store(file, range.begin, data);
  const std::uint64_t page = range.begin - range.begin % 4096;
  if (how == 0) {
    expect_ok(::msync(view + page, range.end() - page, MS_SYNC), "msync");
  } else if (options_.mutate || how < 4) {
    // What only the kernel's pages have, the sandbox cannot see. Pushes them without a wait for the disk.
    constexpr unsigned kPush = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    expect_ok(
        ::sync_file_range(handle->fd, static_cast<off64_t>(page), static_cast<off64_t>(range.end() - page), kPush),
        "sync_file_range");
  } else if (handle->side == Side::mount) {
    file.unsynced = true;
  }
  return true;
}

bool Tester::truncate() {
  Handle* handle = any_handle(O_WRONLY);
  if (handle == nullptr) return false;
  const std::uint64_t limit = random_.one_in(2) ? handle->file->data.size() : options_.max_size;
  const std::uint64_t size = any_range(limit).begin;
  say("ftruncate %s to %llu", describe(*handle).c_str(), Number(size));
  expect_ok(::ftruncate(handle->fd, static_cast<off_t>(size)), "ftruncate");
  resize(*handle->file, size);
  return true;
}

bool Tester::allocate() {
  Handle* handle = any_handle(O_WRONLY);
  const Range range = any_range(options_.max_size);
  if (handle == nullptr || range.length == 0) return false;
  const int mode = random_.one_in(2) ? FALLOC_FL_KEEP_SIZE : 0;
  say("fallocate %s mode %d: %llu at %llu", describe(*handle).c_str(), mode, Number(range.length), Number(range.begin));
  expect_ok(::fallocate(handle->fd, mode, static_cast<off_t>(range.begin), static_cast<off_t>(range.length)),
            "fallocate");
  if (mode == 0 && range.end() > handle->file->data.size()) resize(*handle->file, range.end());
  return true;
}

bool Tester::punch() {
  Handle* handle = any_handle(O_WRONLY);
  const Range range = any_range(options_.max_size);
  if (handle == nullptr || range.length == 0) return false;
  File& file = *handle->file;
  say("punch a hole %s: %llu at %llu", describe(*handle).c_str(), Number(range.length), Number(range.begin));
  expect_ok(::fallocate(handle->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.begin),
                        static_cast<off_t>(range.length)),
            "fallocate");
  if (range.begin < file.data.size())
    store(file, range.begin, std::string(std::min<std::uint64_t>(range.end(), file.data.size()) - range.begin, '\0'));
  return true;
}

bool Tester::zero() {
  Handle* handle = any_handle(O_WRONLY);
  const Range range = any_range(options_.max_size);
  if (handle == nullptr || range.length == 0 || !options_.zero_range) return false;
  File& file = *handle->file;
  const bool keep = random_.one_in(2);
  const int mode = FALLOC_FL_ZERO_RANGE | (keep ? FALLOC_FL_KEEP_SIZE : 0);
  say("zero a range %s mode %d: %llu at %llu", describe(*handle).c_str(), mode, Number(range.length),
      Number(range.begin));
  expect_ok(::fallocate(handle->fd, mode, static_cast<off_t>(range.begin), static_cast<off_t>(range.length)),
            "fallocate");
  const std::uint64_t end = keep ? std::min<std::uint64_t>(range.end(), file.data.size()) : range.end();
  if (range.begin < end) store(file, range.begin, std::string(end - range.begin, '\0'));
  return true;
}

bool Tester::copy_range() {
  Handle* from = any_handle(O_RDONLY);
  Handle* to = any_handle(O_WRONLY);
  // Between the two sides it is EXDEV, and onto a file that is open to append EBADF.
  if (from == nullptr || to == nullptr || from->side != to->side || (to->flags & O_APPEND) != 0) return false;
  const Range range = any_range(from->file->data.size());
  if (range.length == 0) return false;
  const std::uint64_t target = random_.below(options_.max_size - range.length + 1);
  say("copy %s: %llu at %llu to %s at %llu", describe(*from).c_str(), Number(range.length), Number(range.begin),
      describe(*to).c_str(), Number(target));
  // The kernel reads no further than where it believes the end of the source to be.
  struct stat found {};
  if (options_.mutate) expect_ok(::fstat(from->fd, &found), "fstat");
  auto from_at = static_cast<off64_t>(range.begin);
  auto to_at = static_cast<off64_t>(target);
  if (from->file == to->file && range.begin < target + range.length && target < range.end()) {
    expect_errno(::copy_file_range(from->fd, &from_at, to->fd, &to_at, range.length, 0), EINVAL, "copy_file_range");
    return true;
  }
  std::uint64_t left = range.length;
  while (left != 0) {
    const ssize_t count = ::copy_file_range(from->fd, &from_at, to->fd, &to_at, left, 0);
    expect_ok(count, "copy_file_range");
    expect(count != 0, "copy_file_range copies nothing at " + std::to_string(from_at));
    left -= static_cast<std::uint64_t>(count);
  }
  store(*to->file, target, from->file->data.substr(range.begin, range.length));
  return true;
}

bool Tester::seek() {
  Handle* handle = any_handle(O_RDONLY);
  if (handle == nullptr) return false;
  const File& file = *handle->file;
  const std::uint64_t size = file.data.size();
  const std::uint64_t begin = random_.below(size + 4096);
  say("seek %s from %llu", describe(*handle).c_str(), Number(begin));
  if (file.unsynced) flush(*handle);
  const off_t data = ::lseek(handle->fd, static_cast<off_t>(begin), SEEK_DATA);
  if (data < 0) {
    expect_errno(data, ENXIO, "lseek");
    if (begin < size) expect_zeros(file, begin, size);
  } else {
    expect(static_cast<std::uint64_t>(data) >= begin && static_cast<std::uint64_t>(data) < size,
           "SEEK_DATA tells " + std::to_string(data));
    expect_zeros(file, begin, static_cast<std::uint64_t>(data));
  }
  const off_t hole = ::lseek(handle->fd, static_cast<off_t>(begin), SEEK_HOLE);
  if (begin >= size) {
    expect_errno(hole, ENXIO, "lseek");
    return true;
  }
  expect_ok(hole, "lseek");
  expect(static_cast<std::uint64_t>(hole) >= begin && static_cast<std::uint64_t>(hole) <= size,
         "SEEK_HOLE tells " + std::to_string(hole));
  expect_ok(::lseek(handle->fd, 0, SEEK_SET), "lseek");
  return true;
}

/// What fsync(2) promises: the sandbox has it.
bool Tester::sync() {
  Handle* handle = any_handle(O_RDONLY);
  if (handle == nullptr) return false;
  say("fsync %s", describe(*handle).c_str());
  if (random_.one_in(2))
    flush(*handle);
  else
    expect_ok(::fdatasync(handle->fd), "fdatasync"), handle->file->unsynced = false;
  if (options_.served.empty()) return true;
  for (const auto& [name, file] : names_)
    if (file == handle->file) check_file(Side::served, name, *file);
  return true;
}

bool Tester::stat_open() {
  Handle* handle = any_handle(O_RDONLY);
  if (handle == nullptr) return false;
  say("fstat %s", describe(*handle).c_str());
  struct stat found {};
  expect_ok(::fstat(handle->fd, &found), "fstat");
  expect_stat(*handle->file, found, describe(*handle));
  return true;
}

}  // namespace fsx
