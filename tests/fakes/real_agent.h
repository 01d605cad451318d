// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "agent/server.h"
#include "net/asio_loop.h"
#include "sandbar/client.h"

namespace sandbar::fakes {

/// A whole agent on a thread of this program, serving a folder that is gone afterwards.
class RealAgent {
 public:
  RealAgent() {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-client.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    std::filesystem::create_directory(root());
    std::promise<void> ready;
    thread_ = std::thread([this, &ready] { run(ready); });
    ready.get_future().wait();
  }
  ~RealAgent() {
    loop_.post([this] { server_->shut_down({}, [this] { loop_.stop(); }); });
    thread_.join();
    server_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RealAgent(const RealAgent&) = delete;
  RealAgent& operator=(const RealAgent&) = delete;

  [[nodiscard]] std::filesystem::path root() const { return folder_ + "/root"; }
  [[nodiscard]] Client connect(const std::string& directory = "/") const {
    auto client = Client::connect(Target::parse("unix:" + folder_ + "/s:" + directory).value());
    if (!client) std::abort();
    return std::move(client).value();
  }

 private:
  void run(std::promise<void>& ready) {
    auto root = agent::Root::open(folder_ + "/root");
    if (!root) std::abort();
    root_ = std::move(root).value();
    server_ = std::make_unique<agent::AgentServer>(loop_, *root_, state_, agent::ServerOptions{});
    if (!server_->listen("unix:" + folder_ + "/s")) std::abort();
    ready.set_value();
    loop_.run();
  }

  std::string folder_;
  net::AsioLoop loop_;
  agent::State state_ = agent::State::temporary();
  std::unique_ptr<agent::Root> root_;
  std::unique_ptr<agent::AgentServer> server_;
  std::thread thread_;
};

}  // namespace sandbar::fakes
