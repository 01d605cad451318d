// SPDX-License-Identifier: Apache-2.0
// What a program finds when it starts, what its client sees of it, how it ends.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "process_fixture.h"

namespace sandbar::agent {
namespace {

using Process = ProcessFixture;

/// A line of /proc/self/status as the program saw it.
std::string status_field(const std::string& status, const std::string& name) {
  const auto at = status.find(name + ":\t");
  return at == std::string::npos ? ""
                                 : status.substr(at + name.size() + 2, status.find('\n', at) - at - name.size() - 2);
}

TEST_F(Process, ExitCodesArrive) {
  for (const int code : {0, 1, 7, 126, 127, 128, 255}) {
    const auto done = run(shell("p" + std::to_string(code), "exit " + std::to_string(code)));
    ASSERT_TRUE(done->spawned->ok());
    ASSERT_TRUE(done->ended->ok());
    EXPECT_EQ((*done->ended)->code, static_cast<std::uint32_t>(code));
    EXPECT_EQ((*done->ended)->signal, 0U);
    EXPECT_TRUE(done->out->ended);
    EXPECT_TRUE(done->err->ended);
  }
}

TEST_F(Process, SignalsThatEndIt) {
  for (const int number : {SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGUSR1, SIGRTMIN, SIGRTMAX}) {
    const auto done = run(shell("p" + std::to_string(number), "kill -" + std::to_string(number) + " $$"));
    ASSERT_TRUE(done->ended->ok()) << number;
    EXPECT_EQ((*done->ended)->signal, static_cast<std::uint32_t>(number));
    EXPECT_EQ((*done->ended)->code, 0U);
  }
}

TEST_F(Process, OutputsAreApartAndWhole) {
  const auto done = run(shell("p", "echo out; echo err >&2; head -c 3000000 /dev/zero"));
  EXPECT_EQ(done->out->received.size(), 3000004U);
  EXPECT_EQ(done->out->received.substr(0, 4), "out\n");
  EXPECT_EQ(done->err->received, "err\n");
}

TEST_F(Process, InputArrivesWithItsEnd) {
  std::string text(3000000, 'x');
  for (std::size_t i = 0; i < text.size(); i += 1000) text[i] = '\n';
  const auto done = run(shell("p", "cat; echo END"), text);
  EXPECT_TRUE(done->out->received == text + "END\n");
  EXPECT_EQ(done->in->taken, text.size());
}

TEST_F(Process, WithoutAChannelInputIsEmpty) { EXPECT_EQ(run(shell("p", "cat; echo END"))->out->received, "END\n"); }

TEST_F(Process, CreditIsGivenBackOnlyForWhatThePipeTook) {
  // The program reads nothing until it is told to; a pipe holds 256 KiB.
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  const auto slow = spawn(shell("slow", "read line < fifo; wc -c"), true);
  slow->in->send(std::string(1000000, 'x'));
  run_until([&] { return slow->in->taken > 0; });
  drain();
  EXPECT_LE(slow->in->taken, 262144U);
  slow->in->send_end();
  std::ofstream(folder_ / "fifo") << "go\n";
  run_until([&] { return slow->ended.has_value(); });
  EXPECT_EQ(slow->out->received, "1000000\n");
  EXPECT_EQ(slow->in->taken, 1000000U);
}

TEST_F(Process, InputThatNobodyReadsIsRefusedAndNoError) {
  const auto done = spawn(shell("p", "exec <&-; echo closed"), true);
  done->in->send(std::string(1000000, 'x'));
  run_until([&] { return done->ended.has_value(); });
  EXPECT_EQ((*done->ended)->code, 0U);
  EXPECT_EQ(done->out->received, "closed\n");
  ASSERT_TRUE(done->in->reset_reason);
  EXPECT_EQ(done->in->reset_reason->os_errno, EPIPE);
}

TEST_F(Process, AtItsEndAnInputThatIsStillOpenIsReset) {
  const auto done = spawn(shell("p", "exit 0"), true);
  run_until([&] { return done->ended.has_value(); });
  ASSERT_TRUE(done->in->reset_reason);
  EXPECT_EQ(done->in->reset_reason->os_errno, EPIPE);
}

TEST_F(Process, ASlowReaderStopsItsOwnProcessOnly) {
  auto request = shell("slow", "head -c 2000000 /dev/zero; echo finished >&2");
  auto slow = std::make_shared<Started>();
  slow->out = channel();
  slow->err = channel();
  slow->out->credit = 1000;
  service_->spawn(SessionKey(1), std::move(request), {nullptr, slow->out, slow->err},
                  [](Result<wire::Spawn::Reply>) {});
  wait("slow", slow);
  run_until([&] { return slow->out->received.size() == 1000; });
  EXPECT_EQ(run(shell("other", "echo hello"))->out->received, "hello\n");
  EXPECT_EQ(slow->out->received.size(), 1000U);
  EXPECT_EQ(slow->err->received, "");
  while (slow->out->received.size() < 2000000) {
    const std::size_t before = slow->out->received.size();
    slow->out->give(100000);
    run_until([&] { return slow->out->received.size() == std::min<std::size_t>(2000000, before + 100000); });
  }
  slow->out->give(1);  // EOF, too, is only looked for while something may be sent
  run_until([&] { return slow->ended.has_value(); });
  EXPECT_EQ(slow->err->received, "finished\n");
}

TEST_F(Process, TenMegabytesOfErrorsBeforeOutputWhileOutputIsAwaited) {
  auto started = spawn(shell("p", "head -c 10000000 /dev/zero >&2; echo out"));
  run_until([&] { return started->ended.has_value(); });
  EXPECT_EQ(started->out->received, "out\n");
  EXPECT_EQ(started->err->received.size(), 10000000U);
}

TEST_F(Process, AnOutputThatIsResetIsAClosedPipe) {
  const auto started = spawn(shell("p", "while echo line; do :; done"));
  await_output(*started, "line");
  started->out->send_reset(make_error(Errc::cancelled, "", ""));
  run_until([&] { return started->ended.has_value(); });
  EXPECT_EQ((*started->ended)->signal, static_cast<std::uint32_t>(SIGPIPE));
}

TEST_F(Process, ExecFailuresAreOsErrors) {
  write_file("plain", "text", 0644);
  struct Case {
    std::string program;
    int error;
  };
  for (const auto& [program, error] : {Case{"no-such-program-anywhere", ENOENT}, Case{"./missing", ENOENT},
                                       Case{"./plain", EACCES}, Case{"/", EACCES}, Case{"", ENOENT}}) {
    wire::Spawn request;
    request.id = "p";
    request.argv = {program};
    const auto done = run(std::move(request));
    ASSERT_FALSE(done->spawned->ok()) << program;
    EXPECT_EQ(done->spawned->error().code, Errc::os);
    EXPECT_EQ(done->spawned->error().os_errno, error) << program;
    EXPECT_EQ(done->spawned->error().operation, "exec");
    EXPECT_EQ(done->ended->error().os_errno, error) << "a wait that was sent along gets the same";
    EXPECT_TRUE(done->out->reset_reason && done->err->reset_reason);
  }
  EXPECT_EQ(service_->running(), 0U);
}

TEST_F(Process, AScriptWithoutAnInterpreterIsTheShells) {
  write_file("script", "echo \"$0 $1\"\n", 0755);
  wire::Spawn request;
  request.id = "p";
  request.argv = {"./script", "argument"};
  EXPECT_EQ(run(std::move(request))->out->received, "./script argument\n");
}

TEST_F(Process, ProgramsAreFoundAlongTheGivenPath) {
  ASSERT_EQ(::mkdir((folder_ / "bin").c_str(), 0755), 0);
  write_file("bin/tool", "#!/bin/sh\necho found\n", 0755);
  wire::Spawn request;
  request.id = "p";
  request.argv = {"tool"};
  request.env = {"PATH=/nowhere:bin"};  // relative to the working directory, as POSIX has it
  EXPECT_EQ(run(request)->out->received, "found\n");
  ASSERT_EQ(::chmod((folder_ / "bin/tool").c_str(), 0644), 0);
  request.id = "q";
  EXPECT_EQ(run(request)->spawned->error().os_errno, EACCES) << "found but not executable is not ENOENT";
}

TEST_F(Process, TooMuchForTheKernelIsSaid) {
  auto request = shell("p", "true");
  request.argv.resize(3000, std::string(1000, 'x'));
  const auto done = run(std::move(request));
  EXPECT_EQ(done->spawned->error().os_errno, E2BIG);
}

TEST_F(Process, TheWorkingDirectoryStaysInTheRoot) {
  ASSERT_EQ(::mkdir((folder_ / "sub").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("/", (folder_ / "up").c_str()), 0);
  ASSERT_EQ(::symlink("../../../../../../..", (folder_ / "sub/out").c_str()), 0);
  const std::string root = std::filesystem::canonical(folder_);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", root},         {"/", root},        {"sub", root + "/sub"}, {"/sub/", root + "/sub"},
      {"../../..", root}, {"/../../etc", ""}, {"up", root},           {"up/sub", root + "/sub"},
      {"sub/out", root},  {"/etc", ""},       {"/proc", ""},          {"sub/..", root}};
  int number = 0;
  for (const auto& [cwd, expected] : cases) {
    auto request = shell("p" + std::to_string(++number), "pwd -P");
    request.cwd = cwd;
    const auto done = run(std::move(request));
    if (expected.empty()) {
      ASSERT_FALSE(done->spawned->ok()) << cwd;
      EXPECT_EQ(done->spawned->error().code, Errc::invalid) << "ENOENT would mean the program";
      EXPECT_NE(done->spawned->error().message().find(cwd), std::string::npos);
    } else {
      EXPECT_EQ(done->out->received, expected + "\n") << cwd;
    }
  }
}

TEST_F(Process, AFileIsNoWorkingDirectory) {
  write_file("file", "", 0644);
  auto request = shell("p", "true");
  request.cwd = "file";
  EXPECT_EQ(run(std::move(request))->spawned->error().code, Errc::invalid);
}

TEST_F(Process, TheEnvironmentIsTheAgentsAndTheGivenOne) {
  ::setenv("SANDBOX_TOKEN", "secret-token", 1);
  ::setenv("SANDBAR_TEST_KEPT", "agents", 1);
  ::setenv("SANDBAR_TEST_REPLACED", "agents", 1);
  auto request = shell("p", "env");
  request.env = {"SANDBAR_TEST_REPLACED=given", "SANDBAR_TEST_NEW=a=b", "SANDBAR_TEST_EMPTY="};
  const std::string env = "\n" + run(std::move(request))->out->received;
  ::unsetenv("SANDBOX_TOKEN");
  EXPECT_NE(env.find("\nSANDBAR_TEST_KEPT=agents\n"), std::string::npos);
  EXPECT_NE(env.find("\nSANDBAR_TEST_REPLACED=given\n"), std::string::npos);
  EXPECT_EQ(env.find("\nSANDBAR_TEST_REPLACED=agents\n"), std::string::npos);
  EXPECT_NE(env.find("\nSANDBAR_TEST_NEW=a=b\n"), std::string::npos);
  EXPECT_NE(env.find("\nSANDBAR_TEST_EMPTY=\n"), std::string::npos);
  EXPECT_EQ(env.find("secret-token"), std::string::npos);
}

TEST_F(Process, BadArgumentsAndEnvironmentsAreRefused) {
  wire::Spawn none;
  none.id = "p";
  EXPECT_EQ(run(none)->spawned->error().code, Errc::invalid);
  for (const std::string& entry : {std::string("NOEQUALS"), std::string("=value"), std::string("A=b\0c", 5)}) {
    auto request = shell("p", "true");
    request.env = {entry};
    EXPECT_EQ(run(request)->spawned->error().code, Errc::invalid);
  }
  auto request = shell("p", std::string("true\0false", 10));
  EXPECT_EQ(run(request)->spawned->error().code, Errc::invalid);
}

TEST_F(Process, NothingOfTheAgentIsInherited) {
  // What an agent changes for itself: umask, limits, an ignored SIGPIPE, blocked signals, open descriptors.
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit childs = limit;
  childs.rlim_cur = 777;
  ProcessServiceOptions options;
  options.defaults.umask = 027;
  options.defaults.nofile = childs;
  restart(options);
  const int inherited = ::open("/dev/null", O_RDONLY);  // no O_CLOEXEC
  ASSERT_GE(::dup2(inherited, 99), 0);
  sigset_t some, old;
  sigemptyset(&some);
  sigaddset(&some, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &some, &old);
  const mode_t umask_before = ::umask(0);
  const auto done = run(shell("p", "umask; ulimit -n; cat /proc/self/status; ls /proc/self/fd"));
  ::umask(umask_before);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  ::close(inherited);
  ::close(99);
  const std::string said = done->out->received;
  EXPECT_EQ(said.substr(0, said.find("Name:")), "0027\n777\n");
  EXPECT_EQ(status_field(said, "SigBlk"), "0000000000000000");
  EXPECT_EQ(status_field(said, "SigIgn"), "0000000000000000");
  EXPECT_TRUE(said.ends_with("\n0\n1\n2\n3\n")) << "3 is the directory that ls reads: " << said;
}

TEST_F(Process, ItLeadsASessionOfItsOwn) {
  const auto done = run(shell("p", "echo $$; cut -d' ' -f5,6 /proc/$$/stat"));
  std::istringstream said(done->out->received);
  std::string pid, group, session;
  said >> pid >> group >> session;
  EXPECT_EQ(pid, std::to_string((*done->spawned)->pid));
  EXPECT_EQ(group, pid);
  EXPECT_EQ(session, pid);
}

TEST_F(Process, ManyShortOnesAreAllAnsweredWithAllTheySaid) {
  std::vector<std::shared_ptr<Started>> all;
  for (int i = 0; i < 200; ++i) all.push_back(spawn(shell("p" + std::to_string(i), "echo " + std::to_string(i))));
  for (int i = 0; i < 200; ++i) {
    run_until([&] { return all[i]->ended.has_value(); });
    EXPECT_EQ((*all[i]->ended)->code, 0U);
    EXPECT_EQ(all[i]->out->received, std::to_string(i) + "\n");
  }
}

TEST_F(Process, ALoopThatIsTooBusyLosesNoOutput) {
  // The limit for background children has passed at once on this clock. With more ready descriptors than are looked at
  // in one turn of the loop, some exits are seen before the output is.
  fakes::FastLoop busy(real_loop_, 1'000'000);
  service_ = std::make_unique<ProcessService>(busy, *root_, journals_, ProcessServiceOptions{});
  std::vector<std::shared_ptr<Started>> all;
  for (int i = 0; i < 200; ++i) all.push_back(spawn(shell("p" + std::to_string(i), "echo out; echo err >&2")));
  for (const auto& each : all) {
    run_until([&] { return each->ended.has_value(); });
    EXPECT_EQ(each->out->received, "out\n");
    EXPECT_EQ(each->err->received, "err\n");
  }
  service_.reset();
}

}  // namespace
}  // namespace sandbar::agent
