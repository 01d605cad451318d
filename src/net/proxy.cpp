// SPDX-License-Identifier: Apache-2.0
#include "net/proxy.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/text.h"
#include "net/socket.h"

namespace sandbar::net {
namespace {

constexpr std::uint16_t kHttpPort = 80;
constexpr std::size_t kMaxProxyText = 4096;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char c) { return lower(c); });
  return result;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0;
    plain += escape ? static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return plain;
}

/// A name or address without brackets and without the root's dot.
std::string_view bare(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.size() > 1 && host.back() == '.') host.remove_suffix(1);
  return host;
}

/// Takes ":PORT" off an entry of NO_PROXY; false where it is another port. An IPv6 address has colons of its own.
bool port_matches(std::string_view& entry, std::uint16_t port) {
  const std::size_t colon = entry.rfind(':');
  if (colon == std::string_view::npos || entry.back() == ']') return true;
  if (entry.front() != '[' && entry.find(':') != colon) return true;
  unsigned number = 0;
  const std::string_view digits = entry.substr(colon + 1);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  entry = entry.substr(0, colon);
  return failed == std::errc{} && end == digits.data() + digits.size() && number == port;
}

bool entry_matches(std::string_view entry, std::string_view host, std::uint16_t port) {
  if (entry == "*") return true;
  if (!port_matches(entry, port) || entry.empty()) return false;
  if (entry == "*") return true;
  const std::string wanted = lower(bare(entry.front() == '.' ? entry.substr(1) : entry));
  const std::string name = lower(bare(host));
  if (wanted.empty() || name.size() < wanted.size()) return false;
  if (name == wanted) return true;
  return name.ends_with(wanted) && name[name.size() - wanted.size() - 1] == '.';
}

/// The small one wins, as with curl.
std::string from_environment(const char* small, const char* big) {
  for (const char* name : {small, big})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0')  // NOLINT(concurrency-mt-unsafe)
      return value;
  return {};
}

bool is_this_machine(const std::string& host) {
  const auto addresses = literal_addresses(std::string(bare(host)), 0);
  return !addresses.empty() && is_loopback(addresses.front());
}

}  // namespace

Result<Proxy> parse_proxy(std::string_view text) {
  // What it says of itself comes without the password.
  const std::size_t credentials_end = text.rfind('@');
  const std::string shown = base::printable(credentials_end == text.npos ? text : text.substr(credentials_end + 1));
  const auto wrong = [&](Errc code, const std::string& why) {
    return make_error(code, "use the HTTP proxy \"" + shown + "\"",
                      why + "; a proxy is http://[USER:PASSWORD@]HOST[:PORT]");
  };
  if (text.size() > kMaxProxyText) return wrong(Errc::invalid, "it is longer than 4096 bytes");
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; }))
    return wrong(Errc::invalid, "it has white space, control or non-ASCII characters");
  if (const std::size_t scheme = text.find("://"); scheme != text.npos) {
    if (lower(text.substr(0, scheme)) != "http")
      return wrong(Errc::unsupported, base::printable(text.substr(0, scheme)) + ":// proxies are not supported");
    text.remove_prefix(scheme + 3);
  }
  Proxy proxy;
  if (const std::size_t at = text.rfind('@'); at != text.npos) {
    proxy.authorization = "Basic " + base::base64_encode(percent_decoded(text.substr(0, at)));
    text.remove_prefix(at + 1);
  }
  text = text.substr(0, text.find('/'));
  const bool has_port = text.rfind(':') != text.npos && (text.empty() || text.back() != ']');
  auto parsed = parse_host_port(has_port ? std::string(text) : std::string(text) + ":" + std::to_string(kHttpPort));
  if (!parsed || parsed->port == 0) return wrong(Errc::invalid, "its host or port is not right");
  proxy.host = parsed->host;
  proxy.port = parsed->port;
  return proxy;
}

bool is_excluded(std::string_view list, std::string_view host, std::uint16_t port) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(", \t"), list.size());
    if (end > 0 && entry_matches(list.substr(0, end), host, port)) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

Result<std::optional<Proxy>> choose_proxy(const std::optional<std::string>& given, const std::string& host,
                                          std::uint16_t port) {
  if (is_this_machine(host)) return std::optional<Proxy>();
  std::string text = given ? *given : from_environment("https_proxy", "HTTPS_PROXY");
  if (text.empty()) return std::optional<Proxy>();
  if (!given && is_excluded(from_environment("no_proxy", "NO_PROXY"), host, port)) return std::optional<Proxy>();
  auto proxy = parse_proxy(text);
  if (!proxy) return proxy.error();
  return std::optional<Proxy>(std::move(*proxy));
}

}  // namespace sandbar::net
