// SPDX-License-Identifier: Apache-2.0
// Lost sessions with the real file service on real files, which is started anew in between.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fakes/restarting_agent.h"

namespace sandbar::client {
namespace {

using wire::HandleId;
using wire::ObjectId;

class RestartAgent : public testing::Test {
 protected:
  using Outcome = std::shared_ptr<std::optional<Result<RemoteFs::AnyAnswer>>>;
  Outcome submit(wire::RequestBody request, base::Bytes body = {}) {
    auto outcome = std::make_shared<std::optional<Result<RemoteFs::AnyAnswer>>>();
    last_ =
        sandbox.files().submit({}, std::move(request), std::move(body), {},
                               [outcome](Result<RemoteFs::AnyAnswer> answer) { outcome->emplace(std::move(answer)); });
    return outcome;
  }
  Result<RemoteFs::AnyAnswer> wait(const Outcome& outcome) {
    if (!sandbox.loop.run_until([&] { return outcome->has_value(); }))
      return make_error(Errc::timeout, "wait in the test");
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

  /// 1 is the root; "d/f" is object 3 in 2, open as handle 1.
  void open_one_file() {
    std::filesystem::create_directory(sandbox.path("d"));
    sandbox.put("d/f", "data");
    ASSERT_EQ(error_of(wire::Attach{ObjectId(1), "/"}), 0);
    ASSERT_EQ(error_of(wire::Lookup{ObjectId(1), "d", ObjectId(2)}), 0);
    ASSERT_EQ(error_of(wire::Lookup{ObjectId(2), "f", ObjectId(3)}), 0);
    ASSERT_EQ(error_of(wire::Open{ObjectId(3), HandleId(1), O_RDWR}), 0);
  }

  fakes::RestartingAgent sandbox;
  CallId last_;
};

TEST_F(RestartAgent, OpenFilesGoOn) {
  open_one_file();
  for (const bool restarts : {false, true, true}) {
    sandbox.lose(restarts);
    const Outcome waiting = submit(wire::Write{HandleId(1), 0, false}, "DATA");
    sandbox.go_on();
    EXPECT_TRUE(wait(waiting).ok());
    EXPECT_EQ(read(1), "DATA");
    EXPECT_EQ(error_of(wire::Write{HandleId(1), 0, false}, "data"), 0);
    EXPECT_EQ(sandbox.get("d/f"), "data");
    EXPECT_EQ(error_of(wire::Fsync{HandleId(1), false}), 0);
  }
}

TEST_F(RestartAgent, AFileThatIsNotWritableAnyMoreStaysOpenForWriting) {
  ASSERT_EQ(error_of(wire::Attach{ObjectId(1), "/"}), 0);
  ASSERT_EQ(error_of(wire::Create{ObjectId(1), "blob", 0600, O_WRONLY | O_EXCL, ObjectId(2), HandleId(1)}), 0);
  ASSERT_EQ(::chmod(sandbox.path("blob").c_str(), 0444), 0);
  sandbox.lose(true);
  sandbox.go_on();
  // Root may write it; an agent of a user may not, and says so.
  EXPECT_EQ(error_of(wire::Write{HandleId(1), 0, false}, "x"), sandbox.root().identities().can_switch() ? 0 : EACCES);
}

TEST_F(RestartAgent, OurRenamesAreFollowedAndOthersAreStale) {
  open_one_file();
  ASSERT_EQ(error_of(wire::Rename{ObjectId(2), "f", ObjectId(1), "g", 0}), 0);
  ASSERT_EQ(error_of(wire::Rename{ObjectId(1), "d", ObjectId(1), "e", 0}), 0);
  sandbox.lose(true);
  sandbox.go_on();
  EXPECT_EQ(read(1), "data");
  EXPECT_EQ(error_of(wire::Lookup{ObjectId(2), "none", ObjectId(20)}), ENOENT) << "the directory is found";
  sandbox.lose(true);
  std::filesystem::rename(sandbox.path("g"), sandbox.path("moved"));
  sandbox.go_on();
  EXPECT_EQ(error_of(wire::Read{HandleId(1), 0, 1}), ESTALE);
  EXPECT_EQ(error_of(wire::GetAttributes{ObjectId(3), {}}), ESTALE);
  std::filesystem::rename(sandbox.path("moved"), sandbox.path("g"));
  EXPECT_EQ(read(1), "data") << "it came back";
}

TEST_F(RestartAgent, AFileThatWasReplacedIsNotTakenForTheOldOne) {
  open_one_file();
  sandbox.lose(true);
  sandbox.put("new", "of somebody else");
  std::filesystem::rename(sandbox.path("new"), sandbox.path("d/f"));
  const Outcome write = submit(wire::Write{HandleId(1), 0, false}, "damage");
  sandbox.go_on();
  const auto written = wait(write);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().os_errno, ESTALE);
  EXPECT_EQ(sandbox.get("d/f"), "of somebody else");
  ASSERT_EQ(error_of(wire::Lookup{ObjectId(2), "f", ObjectId(9)}), 0);
  EXPECT_EQ(error_of(wire::Open{ObjectId(9), HandleId(9), O_RDONLY}), 0);
  EXPECT_EQ(read(9), "of somebody else");
}

TEST_F(RestartAgent, AnOpenFileThatIsGoneIsStale) {
  open_one_file();
  ASSERT_EQ(error_of(wire::Unlink{ObjectId(2), "f"}), 0);
  EXPECT_EQ(read(1), "data");
  sandbox.lose(true);
  sandbox.go_on();
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
  sandbox.lose(false);
  sandbox.go_on();
  EXPECT_EQ(error_of(lock(2, 20)), 0) << "free now, and another has it";
  EXPECT_EQ(error_of(wire::Write{HandleId(1), 0, false}, "x"), EIO);
  EXPECT_EQ(sandbox.get("d/f"), "data");
  EXPECT_EQ(error_of(wire::Close{HandleId(1)}), 0);
  ASSERT_EQ(error_of(wire::Open{ObjectId(3), HandleId(3), O_RDWR}), 0);
  EXPECT_EQ(error_of(lock(3, 10)), EAGAIN);
}

TEST_F(RestartAgent, AnAppendWhoseAnswerIsLostIsDoneOnce) {
  for (const bool restarts : {false, true}) {
    sandbox.put("log", "");
    if (!restarts) {
      ASSERT_EQ(error_of(wire::Attach{ObjectId(1), "/"}), 0);
    }
    const std::uint64_t id = restarts ? 8 : 2;
    ASSERT_EQ(error_of(wire::Lookup{ObjectId(1), "log", ObjectId(id)}), 0);
    ASSERT_EQ(error_of(wire::Open{ObjectId(id), HandleId(id), O_WRONLY}), 0);
    sandbox.silence();
    const Outcome append = submit(wire::Write{HandleId(id), 0, true}, "line\n");
    ASSERT_TRUE(sandbox.loop.run_until([this] { return sandbox.get("log") == "line\n"; }));
    sandbox.lose(restarts);
    sandbox.go_on();
    const auto outcome = wait(append);
    // From its record the agent can answer; without one nobody knows.
    EXPECT_TRUE(outcome.ok() || outcome.error().code == Errc::unknown);
    EXPECT_FALSE(outcome.ok() && restarts);
    EXPECT_EQ(sandbox.get("log"), "line\n");
    EXPECT_EQ(error_of(wire::Write{HandleId(id), 0, true}, "more\n"), 0);
    EXPECT_EQ(sandbox.get("log"), "line\nmore\n");
  }
}

TEST_F(RestartAgent, MutationsThatNeverArrivedAreDoneInTheirOrder) {
  open_one_file();
  sandbox.deafen();
  const Outcome first = submit(wire::MakeDirectory{ObjectId(1), "new", 0755, ObjectId(30)});
  const Outcome given_up = submit(wire::Unlink{ObjectId(2), "f"});
  const CallId unlink = last_;
  const Outcome second = submit(wire::Create{ObjectId(30), "file", 0644, O_RDWR, ObjectId(31), HandleId(31)});
  const Outcome third = submit(wire::Write{HandleId(31), 0, false}, "written");
  sandbox.files().cancel(unlink);
  EXPECT_FALSE(wait(given_up).ok());
  sandbox.lose(false);
  sandbox.go_on();
  EXPECT_TRUE(wait(first).ok());
  EXPECT_TRUE(wait(second).ok());
  EXPECT_TRUE(wait(third).ok());
  EXPECT_EQ(sandbox.get("new/file"), "written");
  EXPECT_EQ(sandbox.get("d/f"), "data") << "it was given up";
  EXPECT_EQ(error_of(wire::Unlink{ObjectId(2), "f"}), 0) << "and no number is missing";
}

}  // namespace
}  // namespace sandbar::client
