// SPDX-License-Identifier: Apache-2.0
// Lost sessions with the real file service on real files, which is started anew in between.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
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

namespace sandbar::client {
namespace {

using wire::HandleId;
using wire::ObjectId;

/// What lives as long as one start of an agent.
struct AgentStart {
  AgentStart(base::Loop& loop, const std::string& folder) : root(agent::Root::open(folder).value()), journals(loop) {}
  std::unique_ptr<agent::Root> root;
  agent::Journals journals;
  agent::WorkerPool pool{4};
};

/// One session of it.
class AgentEnd final : public mux::Session::Handler {
 public:
  AgentEnd(base::Loop& loop, AgentStart& start, std::unique_ptr<net::Transport> transport, std::uint64_t epoch,
           bool knows_journal)
      : service_({loop, *start.root, start.pool, start.journals, "journal", [] { return std::size_t{0}; }}) {
    mux::SessionOptions options;
    options.role = mux::Role::agent;
    options.hello.agent = "agent";
    options.hello.epoch = epoch;
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

class RestartAgent : public testing::Test {
 protected:
  RestartAgent() {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-restart.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    start_.emplace(loop_, folder_);
    connect();
    files_.emplace(loop_, *client_, true, OnLoss::wait);
  }
  ~RestartAgent() override {
    files_.reset();
    client_.reset();
    agent_.reset();
    start_.reset();
    std::filesystem::remove_all(folder_);
  }

  void connect() {
    auto [a, b] = fakes::FakeTransport::pair(loop_);
    wire_ = b->end();
    mux::SessionOptions options;
    client_.emplace(loop_, std::move(a), std::move(options), no_service_);
    agent_.emplace(loop_, *start_, std::move(b), epoch_, knows_journal_);
    ASSERT_TRUE(loop_.run_until([this] { return client_->ready(); }));
  }
  /// The agent does not know the session any more; or it is started anew, and knows nothing.
  void lose(bool restarts) {
    agent_.reset();
    files_->pause();
    client_.reset();
    knows_journal_ = !restarts;
    if (!restarts) return;
    ++epoch_;
    start_.reset();
    start_.emplace(loop_, folder_);
  }
  void go_on() {
    connect();
    files_->restart(*client_);
  }

  using Outcome = std::shared_ptr<std::optional<Result<RemoteFs::AnyAnswer>>>;
  Outcome submit(wire::RequestBody request, base::Bytes body = {}) {
    auto outcome = std::make_shared<std::optional<Result<RemoteFs::AnyAnswer>>>();
    last_ = files_->submit({}, std::move(request), std::move(body), {},
                           [outcome](Result<RemoteFs::AnyAnswer> answer) { outcome->emplace(std::move(answer)); });
    return outcome;
  }
  Result<RemoteFs::AnyAnswer> wait(const Outcome& outcome) {
    if (!loop_.run_until([&] { return outcome->has_value(); })) return make_error(Errc::timeout, "wait in the test");
    return std::move(**outcome);
  }
  Result<RemoteFs::AnyAnswer> ask(wire::RequestBody request, base::Bytes body = {}) {
    return wait(submit(std::move(request), std::move(body)));
  }
  /// 0, or the errno; -1 for other errors.
  int error_of(wire::RequestBody request, base::Bytes body = {}) {
    const auto answer = ask(std::move(request), std::move(body));
    if (answer) return 0;
    return answer.error().code == Errc::os ? answer.error().os_errno : -1;
  }
  std::string read(std::uint64_t handle) {
    const auto answer = ask(wire::Read{HandleId(handle), 0, 4096});
    return answer ? answer->body : answer.error().message();
  }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void put(const std::string& name, const std::string& content) const { std::ofstream(path(name)) << content; }
  [[nodiscard]] std::string get(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  /// 1 is the root; "d/f" is object 3 in 2, open as handle 1.
  void open_one_file() {
    std::filesystem::create_directory(path("d"));
    put("d/f", "data");
    ASSERT_EQ(error_of(wire::Attach{ObjectId(1), "/"}), 0);
    ASSERT_EQ(error_of(wire::Lookup{ObjectId(1), "d", ObjectId(2)}), 0);
    ASSERT_EQ(error_of(wire::Lookup{ObjectId(2), "f", ObjectId(3)}), 0);
    ASSERT_EQ(error_of(wire::Open{ObjectId(3), HandleId(1), O_RDWR}), 0);
  }

  fakes::ThreadedLoop loop_;
  std::string folder_;
  std::uint64_t epoch_ = 1;
  bool knows_journal_ = false;
  std::optional<AgentStart> start_;
  NoService no_service_;
  std::shared_ptr<fakes::FakeTransport::End> wire_;  ///< the agent's: what it sends
  std::optional<mux::Session> client_;
  std::optional<AgentEnd> agent_;
  std::optional<RemoteFiles> files_;
  CallId last_;
};

TEST_F(RestartAgent, OpenFilesGoOn) {
  open_one_file();
  for (const bool restarts : {false, true, true}) {
    lose(restarts);
    const Outcome waiting = submit(wire::Write{HandleId(1), 0, false}, "DATA");
    go_on();
    EXPECT_TRUE(wait(waiting).ok());
    EXPECT_EQ(read(1), "DATA");
    EXPECT_EQ(error_of(wire::Write{HandleId(1), 0, false}, "data"), 0);
    EXPECT_EQ(get("d/f"), "data");
    EXPECT_EQ(error_of(wire::Fsync{HandleId(1), false}), 0);
  }
}

TEST_F(RestartAgent, AFileThatIsNotWritableAnyMoreStaysOpenForWriting) {
  ASSERT_EQ(error_of(wire::Attach{ObjectId(1), "/"}), 0);
  ASSERT_EQ(error_of(wire::Create{ObjectId(1), "blob", 0600, O_WRONLY | O_EXCL, ObjectId(2), HandleId(1)}), 0);
  ASSERT_EQ(::chmod(path("blob").c_str(), 0444), 0);
  lose(true);
  go_on();
  // Root may write it; an agent of a user may not, and says so.
  EXPECT_EQ(error_of(wire::Write{HandleId(1), 0, false}, "x"), start_->root->identities().can_switch() ? 0 : EACCES);
}

TEST_F(RestartAgent, OurRenamesAreFollowedAndOthersAreStale) {
  open_one_file();
  ASSERT_EQ(error_of(wire::Rename{ObjectId(2), "f", ObjectId(1), "g", 0}), 0);
  ASSERT_EQ(error_of(wire::Rename{ObjectId(1), "d", ObjectId(1), "e", 0}), 0);
  lose(true);
  go_on();
  EXPECT_EQ(read(1), "data");
  EXPECT_EQ(error_of(wire::Lookup{ObjectId(2), "none", ObjectId(20)}), ENOENT) << "the directory is found";
  lose(true);
  std::filesystem::rename(path("g"), path("moved"));
  go_on();
  EXPECT_EQ(error_of(wire::Read{HandleId(1), 0, 1}), ESTALE);
  EXPECT_EQ(error_of(wire::GetAttributes{ObjectId(3), {}}), ESTALE);
  std::filesystem::rename(path("moved"), path("g"));
  EXPECT_EQ(read(1), "data") << "it came back";
}

TEST_F(RestartAgent, AFileThatWasReplacedIsNotTakenForTheOldOne) {
  open_one_file();
  lose(true);
  put("new", "of somebody else");
  std::filesystem::rename(path("new"), path("d/f"));
  const Outcome write = submit(wire::Write{HandleId(1), 0, false}, "damage");
  go_on();
  const auto written = wait(write);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().os_errno, ESTALE);
  EXPECT_EQ(get("d/f"), "of somebody else");
  ASSERT_EQ(error_of(wire::Lookup{ObjectId(2), "f", ObjectId(9)}), 0);
  EXPECT_EQ(error_of(wire::Open{ObjectId(9), HandleId(9), O_RDONLY}), 0);
  EXPECT_EQ(read(9), "of somebody else");
}

TEST_F(RestartAgent, AnOpenFileThatIsGoneIsStale) {
  open_one_file();
  ASSERT_EQ(error_of(wire::Unlink{ObjectId(2), "f"}), 0);
  EXPECT_EQ(read(1), "data");
  lose(true);
  go_on();
  EXPECT_EQ(error_of(wire::Read{HandleId(1), 0, 1}), ESTALE);
  EXPECT_EQ(error_of(wire::Close{HandleId(1)}), 0);
}

TEST_F(RestartAgent, ALockIsNotTakenAgain) {
  open_one_file();
  const auto lock = [](std::uint64_t handle, std::uint64_t owner) {
    return wire::Lock{.handle = HandleId(handle), .owner = wire::LockOwner(owner), .type = wire::LockType::write};
  };
  ASSERT_EQ(error_of(wire::Open{ObjectId(3), HandleId(2), O_RDWR}), 0);
  ASSERT_EQ(error_of(lock(1, 10)), 0);
  ASSERT_EQ(error_of(lock(2, 20)), EAGAIN);
  lose(false);
  go_on();
  EXPECT_EQ(error_of(lock(2, 20)), 0) << "free now, and another has it";
  EXPECT_EQ(error_of(wire::Write{HandleId(1), 0, false}, "x"), EIO);
  EXPECT_EQ(get("d/f"), "data");
  EXPECT_EQ(error_of(wire::Close{HandleId(1)}), 0);
  ASSERT_EQ(error_of(wire::Open{ObjectId(3), HandleId(3), O_RDWR}), 0);
  EXPECT_EQ(error_of(lock(3, 10)), EAGAIN);
}

TEST_F(RestartAgent, AnAppendWhoseAnswerIsLostIsDoneOnce) {
  for (const bool restarts : {false, true}) {
    put("log", "");
    if (!restarts) {
      ASSERT_EQ(error_of(wire::Attach{ObjectId(1), "/"}), 0);
    }
    const std::uint64_t id = restarts ? 8 : 2;
    ASSERT_EQ(error_of(wire::Lookup{ObjectId(1), "log", ObjectId(id)}), 0);
    ASSERT_EQ(error_of(wire::Open{ObjectId(id), HandleId(id), O_WRONLY}), 0);
    wire_->automatic = false;
    const Outcome append = submit(wire::Write{HandleId(id), 0, true}, "line\n");
    ASSERT_TRUE(loop_.run_until([this] { return get("log") == "line\n"; }));
    lose(restarts);
    go_on();
    const auto outcome = wait(append);
    // From its record the agent can answer; without one nobody knows.
    if (!outcome) EXPECT_EQ(outcome.error().code, Errc::unknown) << outcome.error().message();
    if (restarts) EXPECT_FALSE(outcome.ok());
    EXPECT_EQ(get("log"), "line\n");
    EXPECT_EQ(error_of(wire::Write{HandleId(id), 0, true}, "more\n"), 0);
    EXPECT_EQ(get("log"), "line\nmore\n");
  }
}

TEST_F(RestartAgent, MutationsThatNeverArrivedAreDoneInTheirOrder) {
  open_one_file();
  agent_.reset();  // deaf from here on
  const Outcome first = submit(wire::MakeDirectory{ObjectId(1), "new", 0755, ObjectId(30)});
  const Outcome given_up = submit(wire::Unlink{ObjectId(2), "f"});
  const CallId unlink = last_;
  const Outcome second = submit(wire::Create{ObjectId(30), "file", 0644, O_RDWR, ObjectId(31), HandleId(31)});
  const Outcome third = submit(wire::Write{HandleId(31), 0, false}, "written");
  files_->cancel(unlink);
  EXPECT_FALSE(wait(given_up).ok());
  lose(false);
  go_on();
  EXPECT_TRUE(wait(first).ok());
  EXPECT_TRUE(wait(second).ok());
  EXPECT_TRUE(wait(third).ok());
  EXPECT_EQ(get("new/file"), "written");
  EXPECT_EQ(get("d/f"), "data") << "it was given up";
  EXPECT_EQ(error_of(wire::Unlink{ObjectId(2), "f"}), 0) << "and no number is missing";
}

}  // namespace
}  // namespace sandbar::client
