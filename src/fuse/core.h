// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fuse_lowlevel.h>

#include <memory>
#include <unordered_map>

#include "base/loop.h"
#include "fuse/device.h"
#include "fuse/last_lookup.h"
#include "fuse/session.h"
#include "vfs/file_system.h"

namespace sandbar::fuse {

/// What a Session and its unanswered replies share: libfuse's session, which must outlive every request of it. The
/// Session closes it; the last reply frees it. On the loop's thread.
struct Core : std::enable_shared_from_this<Core> {
  Core(base::Loop& the_loop, vfs::FileSystem& the_files, SessionOptions the_options)
      : loop(the_loop), files(&the_files), options(std::move(the_options)) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  /// No reply goes out any more, and the file system is not called any more.
  void close();
  [[nodiscard]] bool closed() const { return files == nullptr; }

  /// From here on the kernel's interrupt of `request` reaches the file system as one of `operation`.
  void expect_interrupt(fuse_req_t request, vfs::OperationId operation);
  /// The request is about to be answered.
  void answered(fuse_req_t request);
  /// Who asks; with the supplementary groups where options.needs_groups() says so.
  [[nodiscard]] vfs::Caller caller_of(fuse_req_t request) const;

  base::Loop& loop;
  vfs::FileSystem* files;  ///< null once closed
  SessionOptions options;
  Device* device = nullptr;
  fuse_session* session = nullptr;
  bool started = false;  ///< the kernel's INIT was answered, or is about to be
  /// Flags to be added to the answer of INIT; 0 once it went out.
  std::uint32_t add_to_init = 0;
  LastLookup last_lookup;

 private:
  struct Interrupted {
    vfs::OperationId operation;
    pid_t thread = 0;
  };
  static void on_interrupt(fuse_req_t request, void* operation);
  void look_again();

  /// Requests that were interrupted while their caller was not dying. The kernel says it once only: a later SIGKILL
  /// is noticed by looking again.
  std::unordered_map<fuse_req_t, Interrupted> interrupted_;
  base::TimerId look_again_timer_;
};

/// The Core of a request, as libfuse's userdata.
Core& core_of(fuse_req_t request);

}  // namespace sandbar::fuse
