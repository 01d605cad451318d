// SPDX-License-Identifier: Apache-2.0
// Sessions that outlive their connections, as the agent keeps them.
#include <algorithm>
#include <vector>

#include "grant/keys.h"
#include "grant/token.h"
#include "unit/agent/server_fixture.h"

namespace sandbar::agent {
namespace {

using std::chrono::milliseconds;

class ServerResume : public ServerTest {
 protected:
  std::unique_ptr<Client> resumable(const std::string& token = {}) {
    auto client = std::make_unique<Client>(loop_);
    client->comes_back = true;
    client->connect(socket(), token);
    run_until([&] { return client->hello || client->closed; });
    return client;
  }
  void cut(Client& client) {
    client.detached.reset();
    client.cut();
    run_until([&] { return client.detached.has_value(); });
  }
  void come_back(Client& client) {
    client.resumed.reset();
    client.come_back(socket());
    run_until([&] { return client.resumed || client.closed; });
  }
};

TEST_F(ServerResume, OnlyWhoComesBackGetsASessionThatIsKept) {
  EXPECT_EQ(client()->hello->session, "");
  const auto it = resumable();
  EXPECT_EQ(it->hello->session.size(), 32U);
  EXPECT_EQ(it->hello->lease, 3600U);
  EXPECT_NE(resumable()->hello->session, it->hello->session);
  start(std::string(), base::Duration{});
  EXPECT_EQ(resumable()->hello->session, "") << "without a lease nothing is kept";
}

TEST_F(ServerResume, WhatWasAskedIsAnsweredOnTheNextConnection) {
  const auto it = resumable();
  Stream out(loop_, it->session());
  out.listen();
  auto request = shell("p", "echo one; read line; echo $line");
  Stream in(loop_, it->session());
  request.stdin_channel = in.channel->id();
  request.stdout_channel = out.channel->id();
  const auto spawned = it->ask(request);
  const auto waited = it->ask(wire::WaitProcess{"p"});
  run_until([&] { return out.text == "one\n"; });
  cut(*it);
  in.channel->write("two\n");
  const auto attached = it->ask(wire::Attach{wire::ObjectId(1), "/"});
  come_back(*it);
  ASSERT_TRUE(it->resumed);
  EXPECT_EQ(it->resumed->session, it->hello->session);
  EXPECT_FALSE(it->resumed->locks_lost);
  run_until([&] { return waited->done() && attached->done() && out.ended; });
  EXPECT_EQ(out.text, "one\ntwo\n");
  EXPECT_EQ(waited->get<wire::WaitProcess::Reply>().code, 0U);
  EXPECT_TRUE(attached->ok());
  EXPECT_EQ(server_->sessions(), 1U);
}

TEST_F(ServerResume, ASessionThatIsNotKnownIsSaidToBe) {
  const auto it = resumable();
  cut(*it);
  start(std::string());  // another agent at the same place
  it->come_back(socket());
  run_until([&] { return it->closed.has_value(); });
  EXPECT_EQ(it->closed->code, Errc::unknown);
  EXPECT_EQ(server_->sessions(), 0U);
}

TEST_F(ServerResume, AnotherSubjectsSessionIsNotKnown) {
  // The name of a session is no key to it: whoever learns it must also be whom it belongs to.
  const auto key = grant::PrivateKey::generate();
  const auto token = [&](const char* subject) {
    grant::Grant grant;
    grant.subject = subject;
    grant.issued = grant::unix_now();
    grant.expires = grant.issued + 60;
    return grant::mint(grant, key).value();
  };
  AdmissionOptions admission;
  admission.grant_keys.emplace();
  ASSERT_TRUE(admission.grant_keys->add_pem(key.public_pem()).ok());
  start(std::move(admission));
  const auto it = resumable(token("ann"));
  ASSERT_TRUE(it->hello) << it->closed->message();
  cut(*it);
  it->come_back(socket(), token("eve"));
  run_until([&] { return it->resumed || it->closed; });
  ASSERT_TRUE(it->closed);
  EXPECT_EQ(it->closed->code, Errc::unknown);
  EXPECT_EQ(server_->sessions(), 1U) << "Ann's is still there";
}

TEST_F(ServerResume, TheLeaseEndsASessionAndItsProcesses) {
  start(std::string(), milliseconds(20));
  const auto it = resumable();
  const auto spawned = it->ask(shell("p", "sleep 1000"));
  run_until([&] { return spawned->done(); });
  const auto pid = static_cast<pid_t>(spawned->get<wire::Spawn::Reply>().pid);
  cut(*it);
  await_death(pid);
  come_back(*it);
  ASSERT_TRUE(it->closed);
  EXPECT_EQ(it->closed->code, Errc::unknown);
}

TEST_F(ServerResume, TheOldestDetachedSessionMakesRoom) {
  const auto oldest = resumable();
  const auto next = resumable();
  cut(*oldest);
  cut(*next);
  std::vector<std::unique_ptr<Client>> all;
  while (server_->sessions() < kMaxSessions) all.push_back(client());
  all.push_back(client());
  ASSERT_TRUE(all.back()->hello) << "it has the oldest's place";
  come_back(*next);
  EXPECT_TRUE(next->resumed);
  come_back(*oldest);
  ASSERT_TRUE(oldest->closed);
  EXPECT_EQ(oldest->closed->code, Errc::unknown);
}

class LockedOverABreak : public ServerResume {
 protected:
  static std::shared_ptr<Client::Answer> lock(Client& it) {
    it.ask(wire::Attach{wire::ObjectId(1), "/"});
    it.ask(wire::Create{wire::ObjectId(1), "f", 0644, 2, wire::ObjectId(2), wire::HandleId(1)});
    return lock_again(it);
  }
  static std::shared_ptr<Client::Answer> lock_again(Client& it) {
    wire::Lock lock;
    lock.handle = wire::HandleId(1);
    lock.owner = wire::LockOwner(1);
    lock.type = wire::LockType::write;
    return it.ask(lock);
  }
  void get_lock(Client& it) {
    const auto locked = lock(it);
    run_until([&] { return locked->done(); });
    ASSERT_TRUE(locked->ok()) << locked->error().message();
  }
};

TEST_F(LockedOverABreak, ALockIsHeld) {
  const auto it = resumable();
  get_lock(*it);
  cut(*it);
  come_back(*it);
  ASSERT_TRUE(it->resumed);
  EXPECT_FALSE(it->resumed->locks_lost);
  const auto other = client();
  const auto refused = lock(*other);
  run_until([&] { return refused->done(); });
  ASSERT_FALSE(refused->ok());
  EXPECT_EQ(refused->error().os_errno, EAGAIN);
}

TEST_F(LockedOverABreak, OneThatWasGivenBackIsTold) {
  start(std::string(), kSessionLease, milliseconds(5));
  const auto it = resumable();
  get_lock(*it);
  cut(*it);
  const auto other = client();
  std::shared_ptr<Client::Answer> locked = lock(*other);
  for (run_until([&] { return locked->done(); }); !locked->ok(); run_until([&] { return locked->done(); }))
    locked = lock_again(*other);  // when the other's time is over is the clock's affair
  // Until it has shown that it knows, it is told again.
  for (int i = 0; i < 2; ++i) {
    come_back(*it);
    ASSERT_TRUE(it->resumed);
    EXPECT_TRUE(it->resumed->locks_lost);
    cut(*it);
  }
  come_back(*it);
  const auto asked = it->ask(wire::GetAttributes{wire::ObjectId(2), {}});
  run_until([&] { return asked->done(); });
  cut(*it);
  come_back(*it);
  EXPECT_FALSE(it->resumed->locks_lost);
}

TEST_F(ServerResume, ShuttingDownEndsDetachedSessionsToo) {
  const auto it = resumable();
  const auto spawned = it->ask(shell("p", "sleep 1000"));
  run_until([&] { return spawned->done(); });
  const auto pid = static_cast<pid_t>(spawned->get<wire::Spawn::Reply>().pid);
  cut(*it);
  bool done = false;
  server_->shut_down(kShutDownGrace, [&] {
    done = true;
    loop_.stop();
  });
  run_until([&] { return done; });
  EXPECT_EQ(server_->sessions(), 0U);
  EXPECT_EQ(::kill(pid, 0), -1) << "ended and reaped";
}

}  // namespace
}  // namespace sandbar::agent
