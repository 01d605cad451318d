// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "fuse/device.h"
#include "fuse/mount.h"
#include "sandbar/result.h"
#include "vfs/file_system.h"

namespace sandbar::fuse {

struct Core;

struct SessionOptions {
  std::uint32_t max_read = 0;        ///< bytes; 0: the kernel's limit. The same as the mount option
  std::uint32_t own_uid = 0;         ///< the mounting user
  bool own_uid_is_mapped = true;     ///< `idmap=user`: the sandbox acts for own_uid with its own identity and groups
  bool root_may_be_another = false;  ///< `idmap=FILE`: not even root's groups are without a meaning

  /// Whether the supplementary groups of a caller matter, which cost reading a file of /proc a request. They do where
  /// the agent acts as a user other than itself; root needs none, and a mapped user's would mean nothing there.
  [[nodiscard]] bool needs_groups(std::uint32_t uid) const {
    return (uid != 0 || root_may_be_another) && !(own_uid_is_mapped && uid == own_uid);
  }
};

/// The kernel's side of a mount: reads requests from /dev/fuse on the loop (a bounded number a turn, so that the
/// network gets its own), hands them to the file system, sends its answers back. Nothing here waits. Destroying it
/// unmounts; the file system is to be destroyed after it, and hears nothing more from it.
class Session {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    /// The kernel's INIT was answered: the mount is usable. Not inside mount().
    virtual void on_ready() = 0;
    /// Unmounted by someone, or aborted (then `reason` says so). Once; destroying the session in it is allowed.
    virtual void on_ended(const Result<void>& reason) = 0;
  };

  /// Mounts `options` at its mount point. Errc::os or Errc::invalid with everything that libfuse and fusermount3 said.
  static Result<std::unique_ptr<Session>> mount(base::Loop& loop, vfs::FileSystem& files, const MountOptions& mount,
                                                SessionOptions options, Handler& handler);
  /// The same over a device of the test's. Its requests are read by turn() only; `device` must outlive the session.
  static Result<std::unique_ptr<Session>> attach(base::Loop& loop, vfs::FileSystem& files, Device& device,
                                                 SessionOptions options, Handler& handler);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Reads and starts a bounded number of requests. False when the device is at its end.
  bool turn();

 private:
  Session(std::shared_ptr<Core> core, Handler& handler);
  void watch();
  void end(Result<void> reason);

  std::shared_ptr<Core> core_;
  Handler& handler_;
  std::unique_ptr<Device> kernel_;  ///< none for attach()
  base::WatchId watch_;
  struct Buffer;
  std::unique_ptr<Buffer> buffer_;  ///< one request's bytes, used again and again
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool ended_ = false;
  bool told_ready_ = false;
};

}  // namespace sandbar::fuse
