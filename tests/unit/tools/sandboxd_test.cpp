// SPDX-License-Identifier: Apache-2.0
// `sandboxd agent` in a process of its own: what it says, what it refuses, how it ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "sandboxd_main.h"

namespace sandbar::tools {
namespace {

struct Pipe {
  base::UniqueFd read_end, write_end;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) < 0) std::abort();
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

/// One run of the tool in a child: it changes signals, limits and descriptors of its process.
class Tool {
 public:
  explicit Tool(std::vector<std::string> words) {
    pid_ = ::fork();
    if (pid_ < 0) std::abort();
    if (pid_ > 0) {
      in_.read_end.reset();
      out_.write_end.reset();
      err_.write_end.reset();
      return;
    }
    in_.write_end.reset();
    out_.read_end.reset();
    err_.read_end.reset();
    ::dup2(in_.read_end.get(), 0);
    ::dup2(out_.write_end.get(), 1);
    ::dup2(err_.write_end.get(), 2);
    words.insert(words.begin(), "sandboxd");
    std::vector<const char*> argv;
    for (const auto& word : words) argv.push_back(word.c_str());
    const int code = sandboxd_main(static_cast<int>(argv.size()), argv.data(), cli::standard_io());
    std::cout.flush();
    ::_exit(code);
  }
  ~Tool() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;

  void signal(int number) { ::kill(pid_, number); }
  void close_input() { in_.write_end.reset(); }
  std::string read_line() {
    std::string line;
    char c = 0;
    while (::read(out_.read_end.get(), &c, 1) == 1) {
      line += c;
      if (c == '\n') break;
    }
    return line;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Until it ends by itself: the code, then what it said since.
  int wait() {
    out = read_all(out_.read_end.get());
    err = read_all(err_.read_end.get());
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  std::string out, err;

 private:
  Pipe in_, out_, err_;
  pid_t pid_ = -1;
};

class SandboxdTest : public ::testing::Test {
 protected:
  SandboxdTest() {
    ::unsetenv("SANDBOX_TOKEN");
    std::string name = ::testing::TempDir() + "sandbar_sandboxd_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    root_ = (folder_ / "root").string();
    std::filesystem::create_directory(root_);
  }
  ~SandboxdTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Ends by itself with `code`, nothing on stdout, and one message that names each of `parts`.
  static void expect_refused(std::vector<std::string> words, int code, const std::vector<std::string>& parts) {
    std::string line;
    for (const auto& word : words) line += word + " ";
    SCOPED_TRACE(line);
    Tool tool(std::move(words));
    EXPECT_EQ(tool.wait(), code);
    EXPECT_EQ(tool.out, "");
    EXPECT_TRUE(tool.err.starts_with("sandboxd: ")) << tool.err;
    if (code == 1) {
      EXPECT_EQ(tool.err.find('\n'), tool.err.size() - 1) << tool.err;
    }
    for (const auto& part : parts) EXPECT_NE(tool.err.find(part), std::string::npos) << part << " in: " << tool.err;
  }

  std::filesystem::path folder_;
  std::string root_;
};

TEST_F(SandboxdTest, UsageErrors) {
  expect_refused({}, 2, {"command"});
  expect_refused({"agnet"}, 2, {"agnet", "agent"});
  expect_refused({"serve"}, 2, {"serve"});
  expect_refused({"agent"}, 2, {"--root"});
  expect_refused({"agent", "--root", root_}, 2, {"--listen", "--stdio"});
  expect_refused({"agent", "--root", root_, "--stdio", "--listen", "127.0.0.1:0"}, 2, {"--listen", "--stdio"});
  expect_refused({"agent", "--rot", root_, "--stdio"}, 2, {"--rot", "--root"});
  expect_refused({"agent", "--root"}, 2, {"--root"});
  expect_refused({"agent", "--root", root_, "--stdio", "word"}, 2, {"word"});
  expect_refused({"agent", "--root", root_, "--stdio", "--no-auth", "--token-file", "f"}, 2, {"--no-auth"});
  expect_refused({"agent", "--root", root_, "--stdio", "--no-auth", "--grant-pubkey", "f"}, 2, {"--grant-pubkey"});
  expect_refused({"agent", "--root", root_, "--stdio", "--sandbox", "box"}, 2, {"--sandbox", "--grant-pubkey"});
}

TEST_F(SandboxdTest, BadGrantKeys) {
  const std::vector<std::string> agent{"agent", "--root", root_, "--listen", "127.0.0.1:0", "--grant-pubkey"};
  const auto with = [&](const std::string& file) {
    std::vector<std::string> words = agent;
    words.push_back(file);
    return words;
  };
  expect_refused(with(path("missing")), 1, {path("missing"), "No such file"});
  std::ofstream(path("text")) << "text";
  expect_refused(with(path("text")), 1, {path("text"), "BEGIN PUBLIC KEY"});
  ASSERT_EQ(Tool({"keygen", "--key", path("key")}).wait(), 0);
  expect_refused(with(path("key")), 1, {path("key"), "private key", ".pub"});
}

TEST_F(SandboxdTest, BadRoots) {
  std::ofstream(path("file")) << "text";
  expect_refused({"agent", "--root", path("missing"), "--stdio"}, 1, {path("missing"), "No such file", "--root"});
  expect_refused({"agent", "--root", path("file"), "--stdio"}, 1, {path("file"), "Not a directory", "--root"});
  expect_refused({"agent", "--root", "", "--stdio"}, 1, {"--root"});
}

TEST_F(SandboxdTest, BadAddresses) {
  for (const std::string& address : {std::string("nonsense"), std::string("127.0.0.1"), std::string("127.0.0.1:65536"),
                                     std::string("127.0.0.1:x"), std::string(":80"), std::string("")})
    expect_refused({"agent", "--root", root_, "--listen", address, "--no-auth"}, 1, {"127.0.0.1:"});
  ::setenv("SANDBOX_TOKEN", "token", 1);
  expect_refused({"agent", "--root", root_, "--listen", "nonsense"}, 1, {"nonsense", "HOST:PORT"});
  expect_refused({"agent", "--root", root_, "--listen", "unix:" + path("no/socket")}, 1, {"no/socket", "No such file"});
  std::ofstream(path("file")) << "text";
  expect_refused({"agent", "--root", root_, "--listen", "unix:" + path("file")}, 1, {path("file"), "not a socket"});
}

TEST_F(SandboxdTest, APortInUse) {
  const base::UniqueFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  ASSERT_EQ(::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string text = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  expect_refused({"agent", "--root", root_, "--listen", text, "--no-auth"}, 1, {text, "in use", "port 0"});
}

TEST_F(SandboxdTest, ItDoesNotStartOpenToEverybody) {
  expect_refused({"agent", "--root", root_, "--listen", "127.0.0.1:0"}, 1, {"token", "--token-file", "--no-auth"});
  expect_refused({"agent", "--root", root_, "--listen", "unix:" + path("s")}, 1, {"token", "--token-file"});
  for (const std::string& address : {std::string("0.0.0.0:0"), std::string("[::]:0"), std::string("192.0.2.1:0"),
                                     std::string("example.com:0"), std::string("127.0.0.1.example.com:0")})
    expect_refused({"agent", "--root", root_, "--listen", address, "--no-auth"}, 1, {address, "--token-file"});
}

TEST_F(SandboxdTest, BadTokenFiles) {
  expect_refused({"agent", "--root", root_, "--stdio", "--token-file", path("none")}, 1,
                 {path("none"), "No such file"});
  std::ofstream(path("token")) << "the-token\n";
  ASSERT_EQ(::chmod(path("token").c_str(), 0644), 0);
  expect_refused({"agent", "--root", root_, "--stdio", "--token-file", path("token")}, 1, {path("token"), "chmod 600"});
  ASSERT_EQ(::chmod(path("token").c_str(), 0600), 0);
  std::ofstream(path("token")) << "\n";
  expect_refused({"agent", "--root", root_, "--stdio", "--token-file", path("token")}, 1, {path("token"), "empty"});
}

TEST_F(SandboxdTest, BadStateFolders) {
  expect_refused({"agent", "--root", root_, "--stdio", "--state", path("a/b")}, 1, {path("a/b"), "No such file"});
  std::ofstream(path("file")) << "text";
  expect_refused({"agent", "--root", root_, "--stdio", "--state", path("file")}, 1, {path("file"), "Not a directory"});
}

TEST_F(SandboxdTest, OneReadyLineThenEachSignalEndsIt) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    Tool tool({"agent", "--root", root_, "--listen", "unix:" + path("s"), "--no-auth"});
    EXPECT_EQ(tool.read_line(), R"({"ready":true,"url":"unix:)" + path("s") + R"(","root":")" + root_ + "\"}\n");
    EXPECT_TRUE(std::filesystem::is_socket(path("s")));
    tool.signal(number);
    EXPECT_EQ(tool.wait(), 0);
    EXPECT_EQ(tool.out + tool.err, "");
    EXPECT_FALSE(std::filesystem::exists(path("s")));
  }
}

TEST_F(SandboxdTest, PortZeroPicksOne) {
  Tool tool({"agent", "--root", root_, "--listen", "127.0.0.1:0", "--no-auth", "--state", path("state")});
  const std::string line = tool.read_line();
  const std::string start = R"({"ready":true,"url":"ws://127.0.0.1:)";
  ASSERT_TRUE(line.starts_with(start)) << line;
  EXPECT_NE(line[start.size()], '0');
  Tool second({"agent", "--root", root_, "--listen", "127.0.0.1:0", "--no-auth", "--state", path("state")});
  EXPECT_EQ(second.wait(), 1);
  EXPECT_NE(second.err.find("another agent uses it"), std::string::npos) << second.err;
  tool.signal(SIGTERM);
  EXPECT_EQ(tool.wait(), 0);
}

TEST_F(SandboxdTest, IgnoredHangUpsStayIgnored) {
  ::signal(SIGHUP, SIG_IGN);  // as nohup has it
  Tool tool({"agent", "--root", root_, "--listen", "unix:" + path("s"), "--no-auth"});
  ::signal(SIGHUP, SIG_DFL);
  tool.read_line();
  std::ifstream file("/proc/" + std::to_string(tool.pid()) + "/status");
  const std::string status((std::istreambuf_iterator<char>(file)), {});
  const auto at = status.find("SigBlk:\t");
  ASSERT_NE(at, std::string::npos);
  const auto blocked = std::stoull(status.substr(at + 8, 16), nullptr, 16);
  EXPECT_EQ(blocked & (1ULL << (SIGHUP - 1)), 0U) << "it is not taken up as a reason to stop";
  EXPECT_NE(blocked & (1ULL << (SIGTERM - 1)), 0U);
  tool.signal(SIGTERM);
  EXPECT_EQ(tool.wait(), 0);
}

TEST_F(SandboxdTest, TlsUsage) {
  const std::vector<std::string> start{"agent", "--root", root_, "--no-auth"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> words = start;
    words.insert(words.end(), more);
    return words;
  };
  expect_refused(with({"--listen", "127.0.0.1:0", "--tls-cert", "c"}), 2, {"--tls-cert", "--tls-key", "together"});
  expect_refused(with({"--listen", "127.0.0.1:0", "--tls-key", "k"}), 2, {"--tls-cert", "--tls-key", "together"});
  expect_refused(with({"--stdio", "--tls-cert", "c", "--tls-key", "k"}), 2, {"--listen HOST:PORT"});
  expect_refused(with({"--listen", "127.0.0.1:0", "--tls-cert", "c", "--tls-key", "k", "--insecure"}), 2,
                 {"--insecure"});
  expect_refused(with({"--listen", "127.0.0.1:0", "--tls-cert", path("c"), "--tls-key", path("k")}), 1,
                 {path("c"), "No such file"});
}

TEST_F(SandboxdTest, PlaintextBeyondThisMachineIsForTheInsecure) {
  std::ofstream(path("token")) << "secret";
  ASSERT_EQ(::chmod(path("token").c_str(), 0600), 0);
  std::vector<std::string> words{"agent", "--root", root_, "--token-file", path("token"), "--listen", "0.0.0.0:0"};
  expect_refused(words, 1, {"0.0.0.0:0", "--tls-cert", "--insecure"});
  words.emplace_back("--insecure");
  Tool tool(words);
  EXPECT_TRUE(tool.read_line().starts_with(R"({"ready":true,"url":"ws://0.0.0.0:)"));
  tool.signal(SIGTERM);
  EXPECT_EQ(tool.wait(), 0);
}

TEST_F(SandboxdTest, TheTokenLeavesItsEnvironment) {
  Tool tool([&] {
    ::setenv("SANDBOX_TOKEN", "secret-token", 1);
    return std::vector<std::string>{"agent", "--root", root_, "--listen", "unix:" + path("s")};
  }());
  ::unsetenv("SANDBOX_TOKEN");
  tool.read_line();
  std::ifstream file("/proc/" + std::to_string(tool.pid()) + "/environ");
  const std::string environment((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(environment.empty());
  EXPECT_EQ(environment.find("secret-token"), std::string::npos);
  tool.signal(SIGTERM);
  EXPECT_EQ(tool.wait(), 0);
}

TEST_F(SandboxdTest, StdioWithoutAClientSaysSoOnStderrOnly) {
  Tool tool({"agent", "--root", root_, "--stdio"});
  tool.close_input();
  EXPECT_EQ(tool.wait(), 1);
  EXPECT_EQ(tool.out, "");
  EXPECT_TRUE(tool.err.starts_with("sandboxd: ")) << tool.err;
}

TEST_F(SandboxdTest, HelpAndVersion) {
  for (const auto& words : {std::vector<std::string>{"--help"}, {"agent", "--help"}, {"--version"}}) {
    Tool tool(words);
    EXPECT_EQ(tool.wait(), 0);
    EXPECT_EQ(tool.err, "");
    EXPECT_FALSE(tool.out.empty());
  }
}

}  // namespace
}  // namespace sandbar::tools
