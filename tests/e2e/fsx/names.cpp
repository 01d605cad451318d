// SPDX-License-Identifier: Apache-2.0
// The operations on names.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "tester.h"

namespace fsx {
namespace {

const char* said(Side side) { return side == Side::mount ? "" : " (served)"; }

}  // namespace

bool Tester::create() {
  const Side side = any_side();
  const std::string name = any_name();
  const bool exists = names_.count(name) != 0;
  say("create %s%s", name.c_str(), said(side));
  const int fd = ::open(path(side, name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (exists) {
    expect_errno(fd, EEXIST, "open with O_EXCL");
    return true;
  }
  expect_ok(fd, "open with O_EXCL");
  auto file = std::make_shared<File>();
  file->id = ++last_file_;
  set_name(name, file);
  add_handle(fd, O_RDWR, side, std::move(file));
  return true;
}

bool Tester::open_again() {
  const Side side = any_side();
  const std::string name = any_name();
  int flags = random_.one_in(4) ? O_RDONLY : random_.one_in(5) ? O_WRONLY : O_RDWR;
  if (flags != O_RDONLY && random_.one_in(4)) flags |= O_APPEND;
  if (flags != O_RDONLY && random_.one_in(6)) flags |= O_TRUNC;
  const auto place = names_.find(name);
  say("open %s%s flags %#o", name.c_str(), said(side), static_cast<unsigned>(flags));
  const int fd = ::open(path(side, name).c_str(), flags | O_CLOEXEC);
  if (place == names_.end()) {
    expect_errno(fd, ENOENT, "open");
    return true;
  }
  expect_ok(fd, "open");
  if ((flags & O_TRUNC) != 0) resize(*place->second, 0);
  add_handle(fd, flags & ~O_TRUNC, side, place->second);
  return true;
}

bool Tester::close_one() {
  if (handles_.empty()) return false;
  const std::size_t index = random_.below(handles_.size());
  say("close %s", describe(handles_[index]).c_str());
  close_handle(index);
  return true;
}

bool Tester::rename() {
  const Side side = any_side();
  const std::string from = any_used_name();
  const std::string to = any_name();
  if (from.empty()) return false;
  const std::uint64_t choice = random_.below(4);
  const unsigned flags = choice == 0 ? RENAME_NOREPLACE : choice == 1 ? RENAME_EXCHANGE : 0;
  const bool taken = names_.count(to) != 0;
  say("rename %s to %s flags %u%s", from.c_str(), to.c_str(), flags, said(side));
  const int result = ::renameat2(AT_FDCWD, path(side, from).c_str(), AT_FDCWD, path(side, to).c_str(), flags);
  if (taken && flags == RENAME_NOREPLACE) {
    expect_errno(result, EEXIST, "renameat2");
  } else if (!taken && flags == RENAME_EXCHANGE) {
    expect_errno(result, ENOENT, "renameat2");
  } else if (taken && names_[from] == names_[to]) {
    expect_ok(result, "renameat2");  // two names of one file: POSIX has both stay
  } else {
    expect_ok(result, "renameat2");
    const FilePtr file = names_[from];
    const FilePtr other = taken ? names_[to] : nullptr;
    set_name(to, file);
    if (flags == RENAME_EXCHANGE)
      set_name(from, other);
    else
      drop_name(from);
  }
  return true;
}

/// All files in them get other paths, and stay what they are.
bool Tester::exchange_directories() {
  const Side side = any_side();
  const std::string one = "one";
  const std::string other = random_.one_in(2) ? "two" : "three/below";
  say("exchange %s and %s%s", one.c_str(), other.c_str(), said(side));
  // Where rename(2) itself meets a directory that has moved to another parent meanwhile, the kernel answers ESTALE: it
  // cannot move its own entry of it under the lock that it holds (__d_unalias in fs/dcache.c).
  struct stat found {};
  for (const std::string& directory : {one, other}) expect_ok(::stat(path(side, directory).c_str(), &found), "stat");
  expect_ok(::renameat2(AT_FDCWD, path(side, one).c_str(), AT_FDCWD, path(side, other).c_str(), RENAME_EXCHANGE),
            "renameat2");
  std::map<std::string, FilePtr> names;
  for (auto& [name, file] : names_) {
    const std::size_t end = name.rfind('/');
    const std::string directory = name.substr(0, end);
    const std::string& moved = directory == one ? other : directory == other ? one : directory;
    names[moved + name.substr(end)] = std::move(file);
  }
  names_ = std::move(names);
  return true;
}

bool Tester::link() {
  const Side side = any_side();
  const std::string from = any_used_name();
  const std::string to = any_name();
  if (from.empty()) return false;
  const bool taken = names_.count(to) != 0;
  say("link %s to %s%s", from.c_str(), to.c_str(), said(side));
  const int result = ::link(path(side, from).c_str(), path(side, to).c_str());
  if (taken) {
    expect_errno(result, EEXIST, "link");
    return true;
  }
  expect_ok(result, "link");
  set_name(to, names_[from]);
  return true;
}

bool Tester::unlink() {
  const Side side = any_side();
  const std::string name = any_name();
  const bool exists = names_.count(name) != 0;
  say("unlink %s%s", name.c_str(), said(side));
  const int result = ::unlink(path(side, name).c_str());
  if (!exists) {
    expect_errno(result, ENOENT, "unlink");
    return true;
  }
  expect_ok(result, "unlink");
  drop_name(name);
  return true;
}

bool Tester::truncate_by_name() {
  const Side side = any_side();
  const std::string name = any_used_name();
  if (name.empty()) return false;
  const std::uint64_t size = any_range(options_.max_size).begin;
  say("truncate %s%s to %llu", name.c_str(), said(side), static_cast<unsigned long long>(size));
  expect_ok(::truncate(path(side, name).c_str(), static_cast<off_t>(size)), "truncate");
  resize(*names_[name], size);
  return true;
}

bool Tester::stat_by_name() {
  const Side side = any_side();
  const std::string name = any_name();
  say("stat %s%s", name.c_str(), said(side));
  struct stat found {};
  const int result = ::stat(path(side, name).c_str(), &found);
  const auto place = names_.find(name);
  if (place == names_.end()) {
    expect_errno(result, ENOENT, "stat");
    return true;
  }
  expect_ok(result, "stat");
  expect_stat(*place->second, found, name);
  // The same file by another name and by a descriptor of the same side.
  for (const auto& [other, file] : names_) {
    struct stat same {};
    if (file != place->second) continue;
    expect_ok(::stat(path(side, other).c_str(), &same), "stat");
    expect(same.st_ino == found.st_ino, "two names of one file differ in their inode numbers: " + name + ", " + other);
  }
  for (const Handle& handle : handles_) {
    struct stat same {};
    if (handle.file != place->second || handle.side != side) continue;
    expect_ok(::fstat(handle.fd, &same), "fstat");
    expect(same.st_ino == found.st_ino, "an open file and its name differ in their inode numbers: " + name);
  }
  return true;
}

}  // namespace fsx
