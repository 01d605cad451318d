// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fuse_lowlevel.h>

#include <memory>
#include <utility>
#include <vector>

#include "fuse/core.h"
#include "vfs/file_system.h"

/// The answers to the kernel's requests, one class a kind. Each answers its request exactly once: with ok(), with
/// fail(), or, when it is destroyed before, with EIO and a line in the log. After the session was closed nothing is
/// sent. ok() gives back what the kernel did not take because it had given the request up (-ENOENT). On the loop's
/// thread.
namespace sandbar::fuse {

class Reply {
 public:
  /// `name` is a literal: what is asked for, for messages.
  Reply(fuse_req_t request, const char* name)
      : core_(core_of(request).shared_from_this()), request_(request), name_(name) {}
  Reply(Reply&& other) noexcept
      : core_(std::move(other.core_)), request_(std::exchange(other.request_, nullptr)), name_(other.name_) {}
  Reply& operator=(Reply&&) = delete;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  ~Reply();

  [[nodiscard]] fuse_req_t request() const { return request_; }
  [[nodiscard]] Core& core() const { return *core_; }

  void fail(const Error& error);
  void fail(int os_errno);

 protected:
  /// Calls send(request), which returns what fuse_reply_* returned. False where the kernel does not have the answer.
  template <class Send>
  bool answer(Send&& send) {
    fuse_req_t request = take();
    return request != nullptr && send(request) == 0;
  }
  /// The file system, for giving back; null when it is closed.
  [[nodiscard]] vfs::FileSystem* files() const { return core_->files; }

 private:
  /// The request, for one answer; null when there is to be none (any more).
  fuse_req_t take();

  std::shared_ptr<Core> core_;
  fuse_req_t request_;
  const char* name_;
};

/// A result that says nothing but success.
class EmptyReply : public Reply {
 public:
  using Reply::Reply;
  void ok();
};

class EntryReply : public Reply {
 public:
  using Value = vfs::Entry;
  using Reply::Reply;
  void ok(vfs::Entry entry);
};

/// An entry whose attributes the caller's next request is going to ask for.
class LookupReply : public EntryReply {
 public:
  using EntryReply::EntryReply;
  void ok(vfs::Entry entry);
};

class AttributesReply : public Reply {
 public:
  using Value = vfs::Stat;
  using Reply::Reply;
  void ok(const vfs::Stat& stat);
};

class StoredLinkReply : public Reply {
 public:
  using Reply::Reply;
  using Value = base::Bytes;
  void ok(const base::Bytes& target);
};

class LinkTargetReply : public Reply {
 public:
  using Value = base::Bytes;
  using Reply::Reply;
  void ok(const base::Bytes& target);
};

class OpenReply : public Reply {
 public:
  using Value = vfs::Opened;
  using Reply::Reply;
  void ok(const vfs::Opened& opened);
};

class CreateReply : public Reply {
 public:
  using Value = vfs::Created;
  using Reply::Reply;
  void ok(const vfs::Created& created);
};

/// Bytes of a file, at most as many as asked for.
class DataReply : public Reply {
 public:
  using Value = base::Bytes;
  DataReply(fuse_req_t request, const char* name, std::size_t size) : Reply(request, name), size_(size) {}
  void ok(const base::Bytes& data);

 private:
  std::size_t size_;
};

/// An xattr's value or the list of names. With size 0 the caller asks how large it is; ERANGE where it is larger than
/// the caller's buffer.
class XattrReply : public Reply {
 public:
  using Value = base::Bytes;
  XattrReply(fuse_req_t request, const char* name, std::size_t size) : Reply(request, name), size_(size) {}
  void ok(const base::Bytes& value);

 private:
  std::size_t size_;
};

/// Bytes written or copied.
class CountReply : public Reply {
 public:
  using Value = std::uint64_t;
  CountReply(fuse_req_t request, const char* name, std::size_t size) : Reply(request, name), size_(size) {}
  void ok(std::uint64_t count);

 private:
  std::size_t size_;
};

class SeekReply : public Reply {
 public:
  using Value = std::uint64_t;
  using Reply::Reply;
  void ok(std::uint64_t offset);
};

class StatFsReply : public Reply {
 public:
  using Value = vfs::StatFs;
  using Reply::Reply;
  void ok(const vfs::StatFs& stat);
};

class LockReply : public Reply {
 public:
  using Value = vfs::LockHolder;
  using Reply::Reply;
  void ok(const vfs::LockHolder& holder);
};

/// Packs a directory's entries as the kernel wants them, and knows which lookups it counted.
class ListBuffer final : public vfs::ListSink {
 public:
  ListBuffer(fuse_req_t request, std::size_t size, bool plus);
  bool add(const vfs::Listed& entry) override;
  [[nodiscard]] base::BytesView packed() const { return {bytes_.data(), used_}; }
  [[nodiscard]] const std::vector<vfs::NodeId>& counted() const { return counted_; }

 private:
  std::size_t add_plain(char* at, std::size_t room, const vfs::Listed& entry) const;
  std::size_t add_plus(char* at, std::size_t room, const vfs::Listed& entry) const;

  fuse_req_t request_;
  bool plus_;
  base::Bytes bytes_;
  std::size_t used_ = 0;
  std::vector<vfs::NodeId> counted_;
};

/// A part of a directory. Its buffer has an address of its own, for the file system to fill while the reply moves.
class ListReply : public Reply {
 public:
  ListReply(fuse_req_t request, const char* name, std::size_t size, bool plus)
      : Reply(request, name), buffer_(std::make_unique<ListBuffer>(request, size, plus)) {}
  [[nodiscard]] vfs::ListSink& sink() { return *buffer_; }
  void ok();
  /// What was taken before the error is sent: its lookups count, and the next call meets the error again.
  void fail(const Error& error);

 private:
  std::unique_ptr<ListBuffer> buffer_;
};

}  // namespace sandbar::fuse
