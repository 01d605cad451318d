// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/server.h"
#include "mux/session.h"
#include "net/asio_loop.h"
#include "net/connect.h"
#include "wire/codec.h"

/// A whole agent with real sessions over a Unix socket, on the test's own thread.
namespace sandbar::agent {

/// One client's side.
class Client final : public mux::Session::Handler {
 public:
  explicit Client(net::AsioLoop& loop) : loop_(loop) {}

  void connect(const std::string& socket, const std::string& token = {}, const std::string& journal = {}) {
    dial(socket, token, [this, journal](std::unique_ptr<net::Transport> transport) {
      mux::SessionOptions session;
      session.hello.journal = journal;
      session.resumable = comes_back;
      if (comes_back) session.hello.capabilities = {wire::kCapabilityResume};
      transport_ = transport.get();
      session_ = std::make_unique<mux::Session>(loop_, std::move(transport), std::move(session), *this);
    });
  }
  /// Goes on with the session over a new connection.
  void come_back(const std::string& socket, const std::string& token = {}) {
    dial(socket, token, [this](std::unique_ptr<net::Transport> transport) {
      transport_ = transport.get();
      session_->resume(std::move(transport));
    });
  }
  /// As a cut cable: the agent sees the end of the connection, and no goodbye.
  void cut() { transport_->close("cut"); }
  bool comes_back = false;  ///< for connect()
  void disconnect() { session_.reset(); }

  void on_ready(const wire::Hello& peer) override {
    hello = peer;
    loop_.stop();
  }
  void on_request(mux::Message, mux::Responder) override { FAIL() << "an agent asks nothing"; }
  void on_detached(const Error& reason) override {
    detached = reason;
    loop_.stop();
  }
  void on_resumed(const wire::Hello& peer) override {
    resumed = peer;
    loop_.stop();
  }
  void on_closed(const Error& reason) override {
    closed = reason;
    loop_.stop();
  }

  struct Answer {
    std::optional<Result<mux::Message>> raw;
    [[nodiscard]] bool done() const { return raw.has_value(); }
    [[nodiscard]] bool ok() const { return raw && raw->ok(); }
    [[nodiscard]] const Error& error() const { return raw->error(); }
    template <class R>
    R get() const {
      return std::get<R>(wire::decode_reply(raw->value().head).value().body);
    }
  };
  std::shared_ptr<Answer> ask(wire::RequestBody body, wire::RequestContext context = {},
                              mux::RequestOptions options = {}) {
    return ask_raw(wire::encode_request({std::move(context), std::move(body)}), options);
  }
  std::shared_ptr<Answer> ask_raw(base::Bytes head, mux::RequestOptions options = {}) {
    auto answer = std::make_shared<Answer>();
    last = session_->request({std::move(head), {}}, options, [answer, this](Result<mux::Message> message) {
      answer->raw = std::move(message);
      loop_.stop();
    });
    return answer;
  }

  mux::Session& session() { return *session_; }
  std::optional<wire::Hello> hello;
  std::optional<wire::Hello> resumed;
  std::optional<Error> closed;
  std::optional<Error> detached;
  wire::RequestId last;

 private:
  void dial(const std::string& socket, const std::string& token,
            std::function<void(std::unique_ptr<net::Transport>)> connected) {
    net::Endpoint endpoint;
    endpoint.kind = net::Endpoint::Kind::unix_socket;
    endpoint.socket_path = socket;
    net::ConnectOptions options;
    options.token = token;
    connecting_ =
        net::connect(loop_, endpoint, options, [this, connected](Result<std::unique_ptr<net::Transport>> transport) {
          if (!transport) return on_closed(transport.error());
          connected(std::move(*transport));
        });
  }

  net::Transport* transport_ = nullptr;  ///< the session's
  net::AsioLoop& loop_;
  std::unique_ptr<net::PendingConnect> connecting_;
  std::unique_ptr<mux::Session> session_;
};

/// The client's end of a stream.
class Stream final : public mux::Channel::Handler {
 public:
  Stream(net::AsioLoop& loop, mux::Session& session) : loop_(loop), channel(session.open_channel()) {}
  ~Stream() override { channel->set_handler(nullptr); }
  void listen() { channel->set_handler(this); }
  void on_data(base::Bytes data) override {
    channel->consumed(data.size());
    text += data;
    loop_.stop();
  }
  void on_end() override {
    channel->end();
    ended = true;
    loop_.stop();
  }
  void on_reset(const Error& reason) override {
    reset = reason;
    loop_.stop();
  }
  void on_writable() override {}

 private:
  net::AsioLoop& loop_;

 public:
  std::shared_ptr<mux::Channel> channel;
  std::string text;
  bool ended = false;
  std::optional<Error> reset;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    ::signal(SIGPIPE, SIG_IGN);  // as the agent does
    std::string name = ::testing::TempDir() + "sandbar_server_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    std::filesystem::create_directory(folder_ / "root");
    root_ = Root::open((folder_ / "root").string()).value();
    start(AdmissionOptions{});
  }
  ~ServerTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void start(const std::string& token, base::Duration lease = kSessionLease, base::Duration lock_grace = kLockGrace) {
    AdmissionOptions admission;
    admission.token = token;
    start(std::move(admission), lease, lock_grace);
  }
  void start(AdmissionOptions admission, base::Duration lease = kSessionLease, base::Duration lock_grace = kLockGrace) {
    server_.reset();
    ServerOptions options;
    options.admission = std::move(admission);
    options.session_lease = lease;
    options.lock_grace = lock_grace;
    server_ = std::make_unique<AgentServer>(loop_, *root_, state_, std::move(options));
    auto url = server_->listen("unix:" + socket());
    ASSERT_TRUE(url.ok()) << url.error().message();
    EXPECT_EQ(*url, "unix:" + socket());
  }
  [[nodiscard]] std::string socket() const { return (folder_ / "socket").string(); }

  void run_until(const std::function<bool()>& true_now) {
    while (!true_now()) loop_.run();
  }
  std::unique_ptr<Client> client(const std::string& token = {}, const std::string& journal = {}) {
    auto client = std::make_unique<Client>(loop_);
    client->connect(socket(), token, journal);
    run_until([&] { return client->hello || client->closed; });
    return client;
  }
  static wire::Spawn shell(const std::string& id, const std::string& script) {
    wire::Spawn request;
    request.id = id;
    request.argv = {"/bin/sh", "-c", script};
    return request;
  }
  /// Until the process is gone, or a zombie; the loop runs.
  void await_death(pid_t pid) {
    const base::UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!fd) return;
    bool dead = false;
    const auto watch = loop_.watch(fd.get(), base::Readiness::readable, [&] {
      dead = true;
      loop_.stop();
    });
    run_until([&] { return dead; });
    loop_.unwatch(watch);
  }

  std::filesystem::path folder_;
  net::AsioLoop loop_;
  std::unique_ptr<Root> root_;
  State state_ = State::temporary();
  std::unique_ptr<AgentServer> server_;
};

}  // namespace sandbar::agent
