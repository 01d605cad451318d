// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/process_service.h"
#include "fakes/fake_channel.h"
#include "fakes/fast_loop.h"
#include "net/asio_loop.h"

namespace sandbar::agent {

/// A process of a test, with its streams and answers.
struct Started {
  std::shared_ptr<fakes::FakeChannel> in, out, err;
  std::optional<Result<wire::Spawn::Reply>> spawned;
  std::optional<Result<wire::WaitProcess::Reply>> ended;
};

/// A process service on a real loop, over an empty root. Timers run 20 times as fast as they should, so that the limits
/// for processes that do not end can be seen; nothing waits for them that ends by itself.
class ProcessFixture : public ::testing::Test {
 protected:
  ProcessFixture() {
    ::signal(SIGPIPE, SIG_IGN);  // as the agent does
    std::string name = ::testing::TempDir() + "sandbar_process_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    root_ = Root::open(folder_.string()).value();
    restart({});
  }
  ~ProcessFixture() override {
    service_.reset();
    std::filesystem::remove_all(folder_);
  }

  void restart(ProcessServiceOptions options) {
    service_.reset();
    service_ = std::make_unique<ProcessService>(loop_, *root_, journals_, options);
  }

  std::function<void()> wake() {
    return [this] { real_loop_.stop(); };
  }
  /// Runs the loop until `true_now`, which is asked after each event.
  void run_until(const std::function<bool()>& true_now) {
    while (!true_now()) real_loop_.run();
  }
  void drain() {
    bool done = false;
    loop_.post([&] {
      done = true;
      real_loop_.stop();
    });
    run_until([&] { return done; });
  }

  static wire::Spawn shell(const std::string& id, const std::string& script) {
    wire::Spawn request;
    request.id = id;
    request.argv = {"/bin/sh", "-c", script};
    return request;
  }

  std::shared_ptr<fakes::FakeChannel> channel() { return std::make_shared<fakes::FakeChannel>(loop_, wake()); }

  std::shared_ptr<Started> spawn(wire::Spawn request, bool with_input = false, SessionKey owner = SessionKey(1)) {
    auto started = std::make_shared<Started>();
    if (with_input) started->in = channel();
    started->out = channel();
    started->err = channel();
    const std::string id = request.id;
    service_->spawn(owner, std::move(request), {started->in, started->out, started->err},
                    [started, this](Result<wire::Spawn::Reply> reply) {
                      started->spawned = std::move(reply);
                      real_loop_.stop();
                    });
    wait(id, started);
    return started;
  }
  void wait(const std::string& id, const std::shared_ptr<Started>& into) {
    service_->wait(id, [into, this](Result<wire::WaitProcess::Reply> reply) {
      into->ended = std::move(reply);
      real_loop_.stop();
    });
  }
  /// Spawns, takes all output, waits.
  std::shared_ptr<Started> run(wire::Spawn request, std::optional<std::string> input = std::nullopt) {
    auto started = spawn(std::move(request), input.has_value());
    if (input) {
      started->in->send(*input);
      started->in->send_end();
    }
    run_until([&] { return started->spawned && started->ended; });
    return started;
  }
  /// Until the process has said so much.
  void await_output(const Started& started, const std::string& text) {
    run_until([&] { return started.out->received.find(text) != std::string::npos; });
  }

  void write_file(const std::string& name, const std::string& text, mode_t mode) {
    std::ofstream(folder_ / name) << text;
    ASSERT_EQ(::chmod((folder_ / name).c_str(), mode), 0);
  }

  std::filesystem::path folder_;
  net::AsioLoop real_loop_;
  fakes::FastLoop loop_{real_loop_, 20};
  Journals journals_{loop_};
  std::unique_ptr<Root> root_;
  std::unique_ptr<ProcessService> service_;
};

}  // namespace sandbar::agent
