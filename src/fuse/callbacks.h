// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fuse_lowlevel.h>

#include <concepts>
#include <exception>
#include <utility>

#include "base/log.h"
#include "fuse/core.h"
#include "fuse/reply.h"

/// libfuse's callbacks: each copies its arguments, starts one operation of the file system and returns; the answer is
/// sent by the operation's completion. They run on the loop's thread, inside Session::turn().
namespace sandbar::fuse {

/// All of them, for fuse_session_new().
fuse_lowlevel_ops operations();

void add_name_operations(fuse_lowlevel_ops& table);
void add_file_operations(fuse_lowlevel_ops& table);
void add_directory_operations(fuse_lowlevel_ops& table);

/// The completion that answers with `reply`.
template <class R>
requires requires { typename R::Value; }
vfs::FileSystem::Done<typename R::Value> completion(R reply) {
  return [reply = std::move(reply)](Result<typename R::Value> result) mutable {
    if (result) return reply.ok(std::move(*result));
    reply.fail(result.error());
  };
}

template <class R>
vfs::FileSystem::Done<void> completion(R reply) {
  return [reply = std::move(reply)](const Result<void>& result) mutable {
    if (result) return reply.ok();
    reply.fail(result.error());
  };
}

/// Runs begin(core, done), which starts the operation that `reply` answers, and connects the kernel's interrupts with
/// it. An exception (out of memory) must not pass through libfuse's C frames: it drops the reply, which is EIO.
template <class R, class Begin>
void start(R reply, Begin&& begin) noexcept {
  Core& core = reply.core();
  fuse_req_t request = reply.request();
  core.last_lookup.forget(fuse_req_ctx(request)->pid);
  try {
    // The operation does not complete inside begin(), so the request is there for expect_interrupt().
    core.expect_interrupt(request, begin(core, completion(std::move(reply))));
  } catch (const std::exception& error) {
    base::log_error(std::string("an operation could not start: ") + error.what());
  }
}

}  // namespace sandbar::fuse
