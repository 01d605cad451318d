// SPDX-License-Identifier: Apache-2.0
// The parts of sandbox-exec that need no program of their own: usage, the plan, the streams. tests/e2e has the rest.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "exec_plan.h"
#include "exec_streams.h"
#include "fakes/real_agent.h"
#include "sandbox_exec_main.h"

namespace sandbar::tools {
namespace {

// --- Usage and plan --------------------------------------------------------------------------------------------

struct Said {
  int code = 0;
  std::string out, err;
};

Said run_tool(std::vector<std::string> words) {
  words.insert(words.begin(), "sandbox-exec");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  const int code = sandbox_exec_main(static_cast<int>(words.size()), argv.data(), {in, out, err});
  return {code, out.str(), err.str()};
}

struct UsageCase {
  std::vector<std::string> words;
  std::vector<std::string> says;
};

TEST(ExecUsageTest, EachMistakeIs125AndSaysWhatWasMeant) {
  const std::vector<UsageCase> cases = {
      {{}, {"no command", "login shells come in a later version"}},
      {{"unix:/s"}, {"no command"}},
      {{"unix:/s", "--"}, {"no command"}},
      {{"unix:/s", "make", "test"}, {"sandbox-exec unix:/s -- make test"}},
      {{"unix:/s", "--cwdd", "x", "--", "t"}, {"unknown option --cwdd", "--cwd"}},
      {{"unix:/s", "--env", "A", "--", "t"}, {"NAME=VALUE"}},
      {{"unix:/s", "--env", "=b", "--", "t"}, {"NAME=VALUE"}},
      {{"unix:relative", "--", "t"}, {"absolute", "unix:/"}},
      {{"--", "t"}, {"no TARGET", "mount"}},
      {{"mybox", "--", "t"}, {"control plane"}},
      {{"wss://user@h", "--", "t"}, {"SANDBOX_TOKEN"}},
      {{"unix:/s", "--insecur", "--", "t"}, {"unknown option --insecur", "--insecure"}},
  };
  for (const auto& c : cases) {
    const Said said = run_tool(c.words);
    EXPECT_EQ(said.code, 125) << said.err;
    EXPECT_EQ(said.out, "");
    for (const auto& text : c.says) EXPECT_NE(said.err.find(text), std::string::npos) << text << " in: " << said.err;
  }
}

TEST(ExecUsageTest, HelpGoesToStandardOutput) {
  const Said said = run_tool({"--help"});
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.err, "");
  for (const char* text : {"TARGET", "--cwd", "--env", "--token-file", "--grant-command", "125"})
    EXPECT_NE(said.out.find(text), std::string::npos) << text;
}

TEST(ExecUsageTest, AnAddressThatNobodyAnswersIsNamed) {
  const Said said = run_tool({"unix:/no/such/socket", "--", "true"});
  EXPECT_EQ(said.code, 125);
  EXPECT_NE(said.err.find("unix:/no/such/socket"), std::string::npos) << said.err;
  EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
}

TEST(ExecPlanTest, DirectoriesAreSeenFromTheTargets) {
  EXPECT_EQ(resolve_directory("/src", ""), "/src");
  EXPECT_EQ(resolve_directory("/src", "a/b"), "/src/a/b");
  EXPECT_EQ(resolve_directory("/src", "../x"), "/src/../x") << "the agent resolves it";
  EXPECT_EQ(resolve_directory("/src", "/abs"), "/abs");
  EXPECT_EQ(resolve_directory("/", "a"), "/a");
}

TEST(ExecPlanTest, AnExplicitTargetsDirectoryAndToken) {
  ::setenv("SANDBOX_TOKEN", "from-environment", 1);
  ExecArguments arguments;
  arguments.target = "unix:/s:/src";
  arguments.directory = "lib";
  const auto plan = plan_exec(arguments);
  ::unsetenv("SANDBOX_TOKEN");
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->target.address(), "unix:/s");
  EXPECT_EQ(plan->directory, "/src/lib");
  EXPECT_EQ(plan->token, "from-environment");
}

TEST(ExecPlanTest, TheTokenLeavesTheEnvironment) {
  ::setenv("SANDBOX_TOKEN", "secret", 1);
  ExecArguments arguments;
  arguments.target = "unix:/s";
  EXPECT_EQ(plan_exec(arguments)->token, "secret");
  EXPECT_EQ(::getenv("SANDBOX_TOKEN"), nullptr);
}

TEST(ExecPlanTest, AGrantCommandTakesThePlaceOfTheToken) {
  ::setenv("SANDBOX_TOKEN", "another sandbox's", 1);
  ExecArguments arguments;
  arguments.target = "unix:/s";
  arguments.grant_command = "mint";
  const auto plan = plan_exec(arguments);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->grant_command, "mint");
  EXPECT_EQ(plan->token, "");
  EXPECT_EQ(::getenv("SANDBOX_TOKEN"), nullptr) << "it is for nobody else either";
}

TEST(ExecUsageTest, TokenFileAndGrantCommandExcludeEachOther) {
  const Said said = run_tool({"unix:/s", "--token-file", "f", "--grant-command", "c", "--", "true"});
  EXPECT_EQ(said.code, 125);
  EXPECT_NE(said.err.find("exclude"), std::string::npos) << said.err;
  EXPECT_EQ(run_tool({"unix:/s", "--grant-command", std::string(4097, 'x'), "--", "true"}).code, 125);
}

// --- OutputWriter ----------------------------------------------------------------------------------------------

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
  base::UniqueFd read, write;
};

std::string read_all(int fd) {
  std::string all;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) return all;
    all.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

OutputChunk chunk(std::string bytes) { return {std::move(bytes), nullptr}; }

class StreamsTest : public ::testing::Test {
 protected:
  // As in the program: a reader that goes away is an error, not a signal.
  StreamsTest() : old_(::signal(SIGPIPE, SIG_IGN)) {}
  ~StreamsTest() override { ::signal(SIGPIPE, old_); }
  void (*old_)(int);
};

TEST_F(StreamsTest, WritesInOrderAlsoWhatDoesNotFitThePipe) {
  for (const bool blocking : {true, false}) {
    Pipe pipe;
    if (!blocking) ::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
    auto reader = std::async(std::launch::async, [&] { return read_all(pipe.read.get()); });
    std::string expected;
    {
      OutputWriter writer(pipe.write.get(), [] { ADD_FAILURE() << "closed"; });
      for (int i = 0; i < 100; ++i) {
        const std::string piece(static_cast<std::size_t>(i) * 100, static_cast<char>('a' + i % 26));
        expected += piece;
        writer.push(chunk(piece));
      }
      writer.push(chunk(""));
      EXPECT_FALSE(writer.finish().has_value());
    }
    pipe.write.reset();
    EXPECT_TRUE(reader.get() == expected);
  }
}

TEST_F(StreamsTest, WithoutOutputThereIsNothingToDo) {
  OutputWriter writer(-1, [] { ADD_FAILURE() << "closed"; });
  writer.push(chunk(""));
  EXPECT_FALSE(writer.finish().has_value());
}

TEST_F(StreamsTest, AReaderThatIsGoneIsToldOnceAndIsNoError) {
  Pipe pipe;
  pipe.read.reset();
  int closed = 0;
  OutputWriter writer(pipe.write.get(), [&] { ++closed; });
  for (int i = 0; i < 10; ++i) writer.push(chunk("x"));
  EXPECT_FALSE(writer.finish().has_value());
  EXPECT_EQ(closed, 1);
}

TEST_F(StreamsTest, BytesThatCannotBeWrittenAreAnError) {
  const base::UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  int closed = 0;
  OutputWriter writer(full.get(), [&] { ++closed; });
  writer.push(chunk("x"));
  const auto error = writer.finish();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->os_errno, ENOSPC);
  EXPECT_EQ(closed, 1);
}

// --- StdinReader -----------------------------------------------------------------------------------------------

class StdinTest : public StreamsTest {
 protected:
  /// What `cat` in the sandbox makes of descriptor `fd`.
  std::string through_cat(int fd) {
    std::string out;
    auto process = client_.spawn({.argv = {"cat"}, .has_input = true, .standard_output = [&](const OutputChunk& bytes) {
                                    out += bytes.bytes();
                                  }});
    if (!process) return process.error().message();
    StdinReader reader(fd, *process);
    const auto status = process->wait();
    EXPECT_TRUE(status.ok() && status->code == 0);
    EXPECT_FALSE(reader.stop().has_value());
    return out;
  }

  fakes::RealAgent agent_;
  Client client_ = agent_.connect();
};

TEST_F(StdinTest, CarriesPipesFilesAndNothing) {
  const std::string bytes = std::string(300'000, 'x') + std::string("\0\xff\r\n", 4);
  Pipe pipe;
  auto writer = std::async(std::launch::async, [&] {
    for (std::size_t at = 0; at < bytes.size();)
      at += static_cast<std::size_t>(::write(pipe.write.get(), bytes.data() + at, bytes.size() - at));
    pipe.write.reset();
  });
  EXPECT_TRUE(through_cat(pipe.read.get()) == bytes);
  writer.get();

  std::ofstream(agent_.root() / "f", std::ios::binary) << bytes;
  const base::UniqueFd file(::open((agent_.root() / "f").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(through_cat(file.get()) == bytes);

  const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(through_cat(null.get()), "");
}

TEST_F(StdinTest, ADescriptorThatDoesNotBlockIsWaitedFor) {
  Pipe pipe;
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  std::string out;
  std::promise<void> first;
  auto process = client_.spawn({.argv = {"cat"}, .has_input = true, .standard_output = [&](const OutputChunk& bytes) {
                                  if (out.empty()) first.set_value();
                                  out += bytes.bytes();
                                }});
  ASSERT_TRUE(process.ok());
  StdinReader reader(pipe.read.get(), *process);
  ASSERT_EQ(::write(pipe.write.get(), "a", 1), 1);
  first.get_future().wait();  // so the reader has been through an empty pipe
  ASSERT_EQ(::write(pipe.write.get(), "b", 1), 1);
  pipe.write.reset();
  EXPECT_TRUE(process->wait().ok());
  EXPECT_EQ(out, "ab");
}

TEST_F(StdinTest, AnInputThatNeverEndsDoesNotKeepACommandThatHasEnded) {
  const Pipe pipe;
  auto process = client_.spawn({.argv = {"true"}, .has_input = true});
  ASSERT_TRUE(process.ok());
  StdinReader reader(pipe.read.get(), *process);
  EXPECT_EQ(process->wait()->code, 0);
  EXPECT_FALSE(reader.stop().has_value());
}

TEST_F(StdinTest, AnInputThatCannotBeReadHangsTheCommandUp) {
  const base::UniqueFd folder(::open("/", O_RDONLY | O_CLOEXEC));
  auto process = client_.spawn({.argv = {"cat"}, .has_input = true});
  ASSERT_TRUE(process.ok());
  StdinReader reader(folder.get(), *process);
  const auto status = process->wait();
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(status->signal, SIGHUP);
  const auto error = reader.stop();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->os_errno, EISDIR);
}

}  // namespace
}  // namespace sandbar::tools
