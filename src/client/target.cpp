// SPDX-License-Identifier: Apache-2.0
#include "sandbar/target.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace sandbar {
namespace {

/// sockaddr_un's sun_path with its terminating zero (unix(7)).
constexpr std::size_t kMaxSocketPath = 107;
/// PATH_MAX with its terminating zero (path_resolution(7)).
constexpr std::size_t kMaxDirectory = 4095;
/// What /bin/sh -c takes as one argument (MAX_ARG_STRLEN in execve(2)).
constexpr std::size_t kMaxCommand = 128 * 1024 - 1;
constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;

constexpr std::string_view kForms =
    "a TARGET is wss://HOST:PORT, ws://HOST:PORT, unix:/PATH or exec:COMMAND, each with :/DIR if wanted";

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_control_or_space(char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; }

Error bad(std::string_view text, const std::string& why) {
  return make_error(Errc::invalid, "parse TARGET \"" + base::printable(text) + "\"", why);
}

/// One slash between names and none at the end, so that equal directories have equal texts.
std::string tidy_directory(std::string_view path) {
  std::string tidy;
  for (const char c : path)
    if (c != '/' || tidy.empty() || tidy.back() != '/') tidy += c;
  if (tidy.size() > 1 && tidy.back() == '/') tidy.pop_back();
  return tidy;
}

/// Where the ":/" of a command's directory suffix is, npos where it has none. A suffix holds no white space, so that
/// `docker run -v /a:/b image` is a command as a whole, and does not begin with a second slash, which is a URL's.
std::size_t command_suffix(std::string_view rest) {
  const std::size_t at = rest.rfind(":/");
  if (at == std::string_view::npos) return at;
  const std::string_view behind = rest.substr(at + 2);
  const bool is_suffix = !behind.starts_with('/') && std::none_of(behind.begin(), behind.end(), is_space);
  return is_suffix ? at : std::string_view::npos;
}

/// Takes the directory suffix at `at` off `rest`.
Result<void> take_directory(std::string_view text, std::string_view& rest, std::size_t at, Target& target) {
  if (at == std::string_view::npos) return {};
  target.directory = tidy_directory(rest.substr(at + 1));
  if (target.directory.size() > kMaxDirectory) return bad(text, "the directory is longer than 4095 bytes");
  rest = rest.substr(0, at);
  return {};
}

Result<void> parse_port(std::string_view text, std::string_view digits, Target& target) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0 || port > 65535)
    return bad(text, "the port must be a number from 1 to 65535, as in ws://127.0.0.1:40123");
  target.port = static_cast<std::uint16_t>(port);
  return {};
}

/// Host names do not depend on case; an IPv6 zone ("fe80::1%eth0") names an interface and does.
std::string lower_host(std::string_view host) {
  std::string lower(host);
  for (char& c : lower) {
    if (c == '%') break;
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

Result<void> parse_authority(std::string_view text, std::string_view authority, Target& target) {
  if (authority.find('@') != std::string_view::npos)
    return bad(text, "credentials do not belong in an address; give the token by SANDBOX_TOKEN or --token-file");
  std::string_view host;
  std::string_view behind;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return bad(text, "the ']' of the IPv6 address is missing");
    host = authority.substr(1, close - 1);
    behind = authority.substr(close + 1);
    if (!behind.empty() && behind[0] != ':') return bad(text, "after ']' only :PORT may follow");
  } else {
    const std::size_t colon = authority.find(':');
    host = authority.substr(0, colon);
    if (colon != std::string_view::npos) behind = authority.substr(colon);
    if (behind.find(':', 1) != std::string_view::npos && !behind.empty())
      return bad(text, "an IPv6 address goes into brackets, as in ws://[::1]:40123");
  }
  if (host.empty()) return bad(text, "the host is missing, as in ws://127.0.0.1:40123");
  target.host = lower_host(host);
  target.port = target.tls ? kHttpsPort : kHttpPort;
  if (behind.empty()) return {};
  return parse_port(text, behind.substr(1), target);
}

/// The end of the authority within `rest`: its first '/', or the ":/" of a directory directly behind it.
std::size_t authority_end(std::string_view rest) {
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return rest.size();
  return slash > 0 && rest[slash - 1] == ':' ? slash - 1 : slash;
}

Result<Target> parse_websocket(std::string_view text, std::string_view rest, bool tls) {
  Target target;
  target.tls = tls;
  target.kind = Target::Kind::websocket;
  const std::size_t end = authority_end(rest);
  const std::string_view authority = rest.substr(0, end);
  std::string_view path = rest.substr(end);
  // The first one: a directory may hold ":/", an HTTP path cannot.
  if (auto taken = take_directory(text, path, path.find(":/"), target); !taken) return taken.error();
  for (const std::string_view part : {authority, path})
    if (std::any_of(part.begin(), part.end(), is_control_or_space)) return bad(text, "white space in the address");
  if (path.find('#') != std::string_view::npos) return bad(text, "an address has no #fragment");
  if (auto parsed = parse_authority(text, authority, target); !parsed) return parsed.error();
  if (!path.empty()) target.http_path = path;
  return target;
}

Result<Target> parse_unix(std::string_view text, std::string_view rest) {
  Target target;
  target.kind = Target::Kind::unix_socket;
  if (auto taken = take_directory(text, rest, rest.find(":/"), target); !taken) return taken.error();
  if (!rest.starts_with('/'))
    return bad(text, "the socket's path must be absolute, as in unix:/run/user/1000/box.sock");
  if (rest.size() > kMaxSocketPath) return bad(text, "a Unix socket's path has at most 107 bytes");
  target.socket_path = rest;
  return target;
}

Result<Target> parse_command(std::string_view text, std::string_view rest) {
  Target target;
  target.kind = Target::Kind::command;
  if (auto taken = take_directory(text, rest, command_suffix(rest), target); !taken) return taken.error();
  if (std::all_of(rest.begin(), rest.end(), is_space))
    return bad(text, "the command is missing, as in 'exec:ssh HOST sandboxd agent --stdio'");
  if (rest.size() > kMaxCommand) return bad(text, "the command is longer than 128 KiB");
  target.command = rest;
  return target;
}

/// Texts of another kind: says what was probably meant.
Error not_a_target(std::string_view text) {
  if (text.empty()) return bad(text, "it is empty; " + std::string(kForms));
  if (text.starts_with('/') || text.starts_with('.'))
    return bad(text, "a socket is written unix:/PATH; " + std::string(kForms));
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.substr(colon).starts_with(":/")) {
    if (text.find("://") != std::string_view::npos)
      return bad(text, "the scheme must be wss or ws; " + std::string(kForms));
    return make_error(Errc::unsupported, "look up the sandbox \"" + base::printable(text.substr(0, colon)) + "\"",
                      "names need a control plane, which this version does not have; " + std::string(kForms));
  }
  return bad(text, std::string(kForms));
}

}  // namespace

Result<Target> Target::parse(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return bad(text, "it holds a zero byte");
  if (text.starts_with("ws://")) return parse_websocket(text, text.substr(5), false);
  if (text.starts_with("wss://")) return parse_websocket(text, text.substr(6), true);
  if (text.starts_with("unix:")) return parse_unix(text, text.substr(5));
  if (text.starts_with("exec:")) return parse_command(text, text.substr(5));
  return not_a_target(text);
}

std::string Target::address() const {
  switch (kind) {
    case Kind::websocket: {
      const bool ipv6 = host.find(':') != std::string::npos;
      std::string text = (tls ? "wss://" : "ws://") + (ipv6 ? "[" + host + "]" : host);
      text += ":" + std::to_string(port);
      if (http_path != "/") text += http_path;
      return text;
    }
    case Kind::unix_socket:
      return "unix:" + socket_path;
    case Kind::command:
      break;
  }
  // A command that ends like a directory suffix keeps its end only with a suffix of its own.
  const bool ambiguous = command_suffix(command) != std::string_view::npos;
  return "exec:" + command + (ambiguous ? ":/" : "");
}

std::string Target::text() const {
  std::string text = address();
  if (directory == "/") return text;
  const bool has_slash = kind == Kind::command && command_suffix(command) != std::string_view::npos;
  return text + (has_slash ? directory.substr(1) : ":" + directory);
}

}  // namespace sandbar
