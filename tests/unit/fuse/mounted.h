// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "fakes/fake_file_system.h"
#include "fakes/fake_kernel.h"
#include "fakes/fake_loop.h"
#include "fuse/session.h"

namespace sandbar::fuse {

/// A session between a fake kernel and a fake file system.
class Mounted : public testing::Test, public Session::Handler {
 protected:
  using FakeKernel = fakes::FakeKernel;

  void on_ready() override { ++ready_; }
  void on_ended(const Result<void>& reason) override {
    ++ended_;
    if (!reason) ended_by_ = reason.error();
  }

  void attach(SessionOptions options = {}) {
    auto session = Session::attach(loop_, files_, kernel_, options, *this);
    ASSERT_TRUE(session.ok());
    session_ = std::move(*session);
  }
  /// Attached, and the kernel's INIT answered.
  void mount(SessionOptions options = {}) {
    attach(options);
    init_ = kernel_.send_init(~std::uint64_t{0} & ~(std::uint64_t{1} << 63));
    turn();
    ASSERT_EQ(1, ready_);
  }
  /// Until nothing waits on the device.
  void turn() {
    for (int i = 0; i < 100 && session_; ++i) session_->turn();
  }

  fakes::FakeLoop loop_;
  fakes::FakeFileSystem files_;
  FakeKernel kernel_;
  std::unique_ptr<Session> session_;
  std::uint64_t init_ = 0;
  int ready_ = 0;
  int ended_ = 0;
  std::optional<Error> ended_by_;
};

}  // namespace sandbar::fuse
