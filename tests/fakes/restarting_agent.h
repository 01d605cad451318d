// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/file_service.h"
#include "agent/journal.h"
#include "agent/root.h"
#include "agent/worker_pool.h"
#include "client/remote_files.h"
#include "fakes/fake_transport.h"
#include "fakes/threaded_loop.h"
#include "mux/session.h"
#include "wire/codec.h"

namespace sandbar::fakes {

/// The real file service on a temporary folder, a RemoteFiles that is connected to it in memory, and the loss of their
/// session whenever a test says so.
class RestartingAgent {
 public:
  RestartingAgent() {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-restart.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    start_.emplace(loop, folder_);
    connect();
    files_.emplace(loop, *client_, true, client::OnLoss::wait);
  }
  ~RestartingAgent() {
    files_.reset();
    client_.reset();
    agent_.reset();
    start_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RestartingAgent(const RestartingAgent&) = delete;
  RestartingAgent& operator=(const RestartingAgent&) = delete;

  client::RemoteFiles& files() { return *files_; }
  agent::Root& root() { return *start_->root; }

  /// The agent does not know the session any more; or it is started anew, and knows nothing.
  void lose(bool restarts) {
    agent_.reset();
    files_->pause();
    client_.reset();
    knows_journal_ = !restarts;
    if (!restarts) return;
    ++epoch_;
    start_.reset();
    start_.emplace(loop, folder_);
  }
  void go_on() {
    connect();
    files_->restart(*client_);
  }
  /// The agent hears nothing any more.
  void deafen() { agent_.reset(); }
  /// What it answers from here on does not arrive.
  void silence() { wire_->automatic = false; }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void put(const std::string& name, const std::string& content) const { std::ofstream(path(name)) << content; }
  [[nodiscard]] std::string get(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  ThreadedLoop loop;

 private:
  /// What lives as long as one start of an agent.
  struct Start {
    Start(base::Loop& loop, const std::string& folder) : root(agent::Root::open(folder).value()), journals(loop) {}
    std::unique_ptr<agent::Root> root;
    agent::Journals journals;
    agent::WorkerPool pool{4};
  };

  /// One session of it.
  class End final : public mux::Session::Handler {
   public:
    End(base::Loop& loop, Start& start, std::unique_ptr<net::Transport> transport, std::uint64_t epoch,
        bool knows_journal)
        : service_({loop, *start.root, start.pool, start.journals, "journal", [] { return std::size_t{0}; }}) {
      mux::SessionOptions options;
      options.role = mux::Role::agent;
      options.hello.agent = "agent";
      options.hello.epoch = epoch;
      options.hello.uid = start.root->identities().uid();
      options.hello.gid = start.root->identities().gid();
      options.hello.journal_known = knows_journal;
      options.hello.last_mutation = start.journals.last_begun("journal");
      session_.emplace(loop, std::move(transport), std::move(options), *this);
    }
    void on_ready(const wire::Hello&) override {}
    void on_request(mux::Message message, mux::Responder responder) override {
      auto request = wire::decode_request(message.head);
      if (!request) return responder.fail(request.error());
      service_.handle(std::move(*request), std::move(message.body), std::move(responder));
    }
    void on_closed(const Error&) override {}

   private:
    agent::FileService service_;
    std::optional<mux::Session> session_;
  };

  class NoService final : public mux::Session::Handler {
   public:
    void on_ready(const wire::Hello&) override {}
    void on_request(mux::Message, mux::Responder) override {}
    void on_closed(const Error&) override {}
  };

  void connect() {
    auto [a, b] = FakeTransport::pair(loop);
    wire_ = b->end();
    client_.emplace(loop, std::move(a), mux::SessionOptions{}, no_service_);
    agent_.emplace(loop, *start_, std::move(b), epoch_, knows_journal_);
    if (!loop.run_until([this] { return client_->ready(); })) std::abort();
  }

  std::string folder_;
  std::uint64_t epoch_ = 1;
  bool knows_journal_ = false;
  std::optional<Start> start_;
  NoService no_service_;
  std::shared_ptr<FakeTransport::End> wire_;  ///< the agent's: what it sends
  std::optional<mux::Session> client_;
  std::optional<End> agent_;
  std::optional<client::RemoteFiles> files_;
};

}  // namespace sandbar::fakes
