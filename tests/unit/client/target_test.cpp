// SPDX-License-Identifier: Apache-2.0
#include "sandbar/target.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sandbar {
namespace {

using Kind = Target::Kind;

struct GoodCase {
  std::string text;
  Kind kind;
  std::string where;  ///< host:port http_path, socket path, or command
  std::string directory;
  std::string canonical;
};

std::string where(const Target& target) {
  switch (target.kind) {
    case Kind::websocket:
      return target.host + " " + std::to_string(target.port) + " " + target.http_path + (target.tls ? " tls" : "");
    case Kind::unix_socket:
      return target.socket_path;
    case Kind::command:
      return target.command;
  }
  return {};
}

TEST(TargetTest, ParsesWhatIsGoodAndTextParsesToTheSame) {
  const std::vector<GoodCase> cases = {
      {"ws://host", Kind::websocket, "host 80 /", "/", "ws://host:80"},
      {"ws://HOST:8080", Kind::websocket, "host 8080 /", "/", "ws://host:8080"},
      {"ws://h:1/", Kind::websocket, "h 1 /", "/", "ws://h:1"},
      {"ws://h:65535/a/b?c=d", Kind::websocket, "h 65535 /a/b?c=d", "/", "ws://h:65535/a/b?c=d"},
      {"ws://h:/src", Kind::websocket, "h 80 /", "/src", "ws://h:80:/src"},
      {"ws://h:8080:/src/x", Kind::websocket, "h 8080 /", "/src/x", "ws://h:8080:/src/x"},
      {"ws://h:8080/p:/src", Kind::websocket, "h 8080 /p", "/src", "ws://h:8080/p:/src"},
      {"ws://h:8080/:/src", Kind::websocket, "h 8080 /", "/src", "ws://h:8080:/src"},
      {"ws://h:8080:/a:/b c", Kind::websocket, "h 8080 /", "/a:/b c", "ws://h:8080:/a:/b c"},
      {"ws://[::1]:9:/d", Kind::websocket, "::1 9 /", "/d", "ws://[::1]:9:/d"},
      {"ws://[FE80::1%Eth0]", Kind::websocket, "fe80::1%Eth0 80 /", "/", "ws://[fe80::1%Eth0]:80"},
      {"ws://[::1]:/d", Kind::websocket, "::1 80 /", "/d", "ws://[::1]:80:/d"},
      {"wss://HOST", Kind::websocket, "host 443 / tls", "/", "wss://host:443"},
      {"wss://h:80/p:/src", Kind::websocket, "h 80 /p tls", "/src", "wss://h:80/p:/src"},
      {"wss://[::1]:/d", Kind::websocket, "::1 443 / tls", "/d", "wss://[::1]:443:/d"},
      {"unix:/run/a.sock", Kind::unix_socket, "/run/a.sock", "/", "unix:/run/a.sock"},
      {"unix:/run/a.sock:/", Kind::unix_socket, "/run/a.sock", "/", "unix:/run/a.sock"},
      {"unix:/run/a b:c.sock:/d//e/", Kind::unix_socket, "/run/a b:c.sock", "/d/e", "unix:/run/a b:c.sock:/d/e"},
      {"unix:" + std::string(1, '/') + std::string(106, 'x'), Kind::unix_socket, "/" + std::string(106, 'x'), "/",
       "unix:/" + std::string(106, 'x')},
      {"exec:ssh host sandboxd agent --stdio", Kind::command, "ssh host sandboxd agent --stdio", "/",
       "exec:ssh host sandboxd agent --stdio"},
      {"exec:ssh h a --stdio:/src", Kind::command, "ssh h a --stdio", "/src", "exec:ssh h a --stdio:/src"},
      {"exec:x --url http://h/p", Kind::command, "x --url http://h/p", "/", "exec:x --url http://h/p"},
      {"exec:x --url http://h/p:/d", Kind::command, "x --url http://h/p", "/d", "exec:x --url http://h/p:/d"},
      {"exec:docker run -v /a:/b image agent", Kind::command, "docker run -v /a:/b image agent", "/",
       "exec:docker run -v /a:/b image agent"},
      {"exec:docker run -v /a:/b:/", Kind::command, "docker run -v /a:/b", "/", "exec:docker run -v /a:/b:/"},
      {"exec:run -v /a:/b:/c", Kind::command, "run -v /a:/b", "/c", "exec:run -v /a:/b:/c"},
      {"exec:a:/ b", Kind::command, "a:/ b", "/", "exec:a:/ b"},
  };
  for (const GoodCase& c : cases) {
    SCOPED_TRACE(c.text);
    const auto target = Target::parse(c.text);
    ASSERT_TRUE(target.ok()) << target.error().message();
    EXPECT_EQ(target->kind, c.kind);
    EXPECT_EQ(where(*target), c.where);
    EXPECT_EQ(target->directory, c.directory);
    EXPECT_EQ(target->text(), c.canonical);
    const auto again = Target::parse(target->text());
    ASSERT_TRUE(again.ok()) << again.error().message();
    EXPECT_EQ(where(*again), c.where);
    EXPECT_EQ(again->directory, c.directory);
    const auto address = Target::parse(target->address());
    ASSERT_TRUE(address.ok()) << address.error().message();
    EXPECT_EQ(where(*address), c.where);
    EXPECT_EQ(address->directory, "/");
  }
}

struct BadCase {
  std::string text;
  Errc code;
  std::string says;
};

TEST(TargetTest, RefusesWhatIsBadAndSaysWhy) {
  const std::vector<BadCase> cases = {
      {"", Errc::invalid, "empty"},
      {"ws://", Errc::invalid, "host is missing"},
      {"ws://:80", Errc::invalid, "host is missing"},
      {"ws:///path", Errc::invalid, "host is missing"},
      {"ws://h:0", Errc::invalid, "1 to 65535"},
      {"ws://h:65536", Errc::invalid, "1 to 65535"},
      {"ws://h:8x", Errc::invalid, "1 to 65535"},
      {"ws://h:", Errc::invalid, "1 to 65535"},
      {"ws://h:-1", Errc::invalid, "1 to 65535"},
      {"ws://::1", Errc::invalid, "brackets"},
      {"ws://[::1", Errc::invalid, "']'"},
      {"ws://[::1]x", Errc::invalid, ":PORT"},
      {"ws://[]:1", Errc::invalid, "host is missing"},
      {"ws://user:pw@h", Errc::invalid, "SANDBOX_TOKEN"},
      {"ws://h h", Errc::invalid, "white space"},
      {"ws://h/a b", Errc::invalid, "white space"},
      {"ws://h/a\r\nX: y", Errc::invalid, "white space"},
      {"ws://h/a#b", Errc::invalid, "#fragment"},
      {"ws://h:1:/" + std::string(4095, 'd'), Errc::invalid, "4095"},
      {"wss://", Errc::invalid, "host is missing"},
      {"wss://user:pw@h", Errc::invalid, "SANDBOX_TOKEN"},
      {"wss://h:0", Errc::invalid, "port"},
      {"http://h", Errc::invalid, "scheme"},
      {"unix:", Errc::invalid, "absolute"},
      {"unix:a.sock", Errc::invalid, "absolute"},
      {"unix:/" + std::string(107, 'x'), Errc::invalid, "107"},
      {"exec:", Errc::invalid, "command is missing"},
      {"exec:  ", Errc::invalid, "command is missing"},
      {"exec::/dir", Errc::invalid, "command is missing"},
      {"/run/a.sock", Errc::invalid, "unix:"},
      {"./a.sock", Errc::invalid, "unix:"},
      {"mybox", Errc::unsupported, "control plane"},
      {"mybox:/src", Errc::unsupported, "control plane"},
      {"ftp:x", Errc::invalid, "a TARGET is"},
      {std::string("ws://h\0x", 8), Errc::invalid, "zero byte"},
  };
  for (const BadCase& c : cases) {
    SCOPED_TRACE(c.text);
    const auto target = Target::parse(c.text);
    ASSERT_FALSE(target.ok());
    EXPECT_EQ(target.error().code, c.code);
    EXPECT_NE(target.error().message().find(c.says), std::string::npos) << target.error().message();
    EXPECT_EQ(target.error().message().find('\n'), std::string::npos);
  }
}

TEST(TargetTest, DirectoryOfTheGreatestLengthParses) {
  EXPECT_TRUE(Target::parse("ws://h:1:/" + std::string(4094, 'd')).ok());
}

}  // namespace
}  // namespace sandbar
