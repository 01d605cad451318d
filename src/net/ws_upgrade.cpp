// SPDX-License-Identifier: Apache-2.0
#include "net/ws_upgrade.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "net/ws_config.h"

namespace sandbar::net {
namespace {

namespace http = websocketpp::http;

constexpr std::string_view kHttpVersion = "HTTP/1.1 ";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::size_t kShown = 100;
/// How a TLS server answers to plain HTTP: an alert record of version 3.x (RFC 8446, 5.1).
constexpr std::string_view kTlsAlert = "\x15\x03";
/// In the header Upgrade of an answer that asks for TLS (RFC 2817, 4.2).
constexpr std::string_view kTlsUpgrade = "TLS/1.2";

/// What came, short and harmless to a terminal; its first line only.
std::string shown(std::string_view bytes) {
  bytes = bytes.substr(0, std::min(bytes.find_first_of("\r\n"), kShown));
  return "\"" + base::printable(bytes) + "\"";
}

/// Collects a head. The library's parser gets it whole, so that what follows is known exactly.
struct Head {
  std::string bytes;
  std::size_t end = std::string::npos;  ///< past the blank line

  enum class State { more, complete, too_long, not_text };
  State add(std::string_view more) {
    const std::size_t from = bytes.size() < kHeadEnd.size() ? 0 : bytes.size() - kHeadEnd.size() + 1;
    bytes.append(more);
    const std::size_t found = bytes.find(kHeadEnd, from);
    const std::size_t head = found == std::string::npos ? bytes.size() : found;
    if (head > kMaxHttpHead) return State::too_long;
    const auto text = [](char c) { return c == '\r' || c == '\n' || c == '\t' || (c >= ' ' && c != 0x7F) || c < 0; };
    if (!std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(std::min(from, head)),
                     bytes.begin() + static_cast<std::ptrdiff_t>(head), text))
      return State::not_text;
    if (found == std::string::npos) return State::more;
    end = found + kHeadEnd.size();
    return State::complete;
  }
  std::string take_rest() { return bytes.substr(std::exchange(end, bytes.size())); }
};

/// True where the comma-separated list has this entry.
bool lists(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    while (!entry.empty() && (entry.front() == ' ' || entry.front() == '\t')) entry.remove_prefix(1);
    while (!entry.empty() && (entry.back() == ' ' || entry.back() == '\t')) entry.remove_suffix(1);
    if (entry == wanted) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

/// The token of "Bearer TOKEN"; the scheme's case does not matter (RFC 9110 section 11.1).
std::string bearer(const std::string& authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return {};
  for (std::size_t i = 0; i < kScheme.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return {};
  const std::size_t start = authorization.find_first_not_of(' ', kScheme.size());
  return start == std::string::npos ? std::string{} : authorization.substr(start);
}

/// Of "HTTP/1.1 404 Not Found"; 0 where there is none.
int status_of(std::string_view head) {
  head.remove_prefix(kHttpVersion.size());
  int status = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (i >= head.size() || head[i] < '0' || head[i] > '9') return 0;
    status = status * 10 + (head[i] - '0');
  }
  return head.size() > 3 && (head[3] == ' ' || head[3] == '\r') ? status : 0;
}

/// The value of a header of an answer that is no upgrade, so that the parser does not have it. `name` in small letters.
std::string_view header(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const std::size_t end = std::min(head.find("\r\n"), head.size());
    std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    if (line.empty()) break;
    if (line.size() <= name.size() || line[name.size()] != ':') continue;
    const bool same = std::equal(name.begin(), name.end(), line.begin(), [](char wanted, char c) {
      return wanted == static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    if (!same) continue;
    line.remove_prefix(name.size() + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return line;
  }
  return {};
}

/// Where a Location points, for a message: without what may be secret in it (user, query, fragment).
std::string redirect_target(std::string_view location) {
  location = location.substr(0, location.find_first_of("?#"));
  const std::size_t scheme = location.find("//");
  if (scheme == std::string_view::npos) return location.empty() ? std::string{} : shown(location);
  const std::size_t authority = scheme + 2;
  const std::size_t path = std::min(location.find('/', authority), location.size());
  const std::size_t at = location.substr(0, path).rfind('@');
  const std::size_t from = at == std::string_view::npos || at < authority ? authority : at + 1;
  return shown(std::string(location.substr(0, authority)) + std::string(location.substr(from)));
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// Whether the answer is a page for people.
bool is_html(std::string_view head) {
  constexpr std::string_view kHtml = "text/html";
  return equal_ignoring_case(header(head, "content-type").substr(0, kHtml.size()), kHtml);
}

std::string plain_response(http::status_code::value status, std::string_view extra, std::string_view text) {
  return "HTTP/1.1 " + std::to_string(status) + " " + http::status_code::get_string(status) + "\r\n" +
         std::string(extra) + "Content-Type: text/plain\r\nContent-Length: " + std::to_string(text.size() + 1) +
         "\r\nConnection: close\r\n\r\n" + std::string(text) + "\n";
}

}  // namespace

struct WsClientUpgrade::Core {
  std::string subprotocol;
  WsRandom random;
  WsProcessor processor{false, false, std::make_shared<WsConfig::con_msg_manager_type>(), random};
  WsConfig::request_type request;
  base::Bytes request_bytes;
  Head head;
  State state = State::more;
  Error failure;

  State failed(Errc code, std::string why) {
    failure = make_error(code, {}, std::move(why));
    return state = State::failed;
  }
  State judge();
  State judge_status(int status);
};

WsClientUpgrade::WsClientUpgrade(const WsClientOptions& options) : core_(std::make_unique<Core>()) {
  Core& core = *core_;
  core.subprotocol = options.subprotocol;
  const auto uri = std::make_shared<websocketpp::uri>(false, options.host, options.path);
  core.processor.client_handshake_request(core.request, uri, {options.subprotocol});
  core.request.append_header("User-Agent", "sandbar/" SANDBAR_VERSION);
  if (!options.token.empty()) core.request.append_header("Authorization", "Bearer " + options.token);
  core.request_bytes = core.request.raw();
}
WsClientUpgrade::~WsClientUpgrade() = default;

const base::Bytes& WsClientUpgrade::request() const { return core_->request_bytes; }
const Error& WsClientUpgrade::failure() const { return core_->failure; }
base::Bytes WsClientUpgrade::take_rest() { return core_->head.take_rest(); }
std::string WsClientUpgrade::received() const {
  return core_->head.bytes.empty() ? std::string{} : shown(core_->head.bytes);
}

WsClientUpgrade::State WsClientUpgrade::receive(std::string_view bytes) {
  Core& core = *core_;
  if (core.state != State::more) return core.state;
  const Head::State head = core.head.add(bytes);
  // At once, not when the time is over: an ssh server, or a command that prints a greeting, waits for us.
  const std::string_view start = std::string_view(core.head.bytes).substr(0, kHttpVersion.size());
  if (start.substr(0, kTlsAlert.size()) == kTlsAlert)
    return core.failed(Errc::protocol, "what answered speaks TLS: try wss://");
  if (start != kHttpVersion.substr(0, start.size()))
    return core.failed(Errc::protocol, "what answered is not an agent: it sent " + shown(core.head.bytes));
  if (head == Head::State::too_long) return core.failed(Errc::protocol, "what answered sent an endless HTTP header");
  if (head == Head::State::not_text) return core.failed(Errc::protocol, "what answered sent no HTTP header");
  return head == Head::State::more ? State::more : core.judge();
}

WsClientUpgrade::State WsClientUpgrade::Core::judge() {
  const int status = status_of(head.bytes);
  // Others do not reach the parser: it makes an enumeration of 9 bits of the number.
  if (status != http::status_code::switching_protocols) return judge_status(status);
  WsConfig::response_type response;
  try {
    response.consume(head.bytes.data(), head.end);
  } catch (const std::exception&) {
    return failed(Errc::protocol, "the server's HTTP answer is malformed: " + shown(head.bytes));
  }
  if (const auto wrong = processor.validate_server_handshake_response(request, response))
    return failed(Errc::protocol, "the server's WebSocket upgrade is wrong: " + wrong.message());
  if (!response.get_header("Sec-WebSocket-Extensions").empty())
    return failed(Errc::protocol, "the server chose a WebSocket extension that was not offered");
  const std::string chosen = response.get_header("Sec-WebSocket-Protocol");
  if (chosen != subprotocol)
    return failed(Errc::protocol, "the server does not speak " + subprotocol +
                                      (chosen.empty() ? std::string{} : " but " + shown(chosen)));
  return state = State::upgraded;
}

WsClientUpgrade::State WsClientUpgrade::Core::judge_status(int status) {
  if (status == http::status_code::unauthorized || status == http::status_code::forbidden) {
    const bool sent = !request.get_header("Authorization").empty();
    return failed(Errc::unauthorized,
                  (sent ? "the token was refused (HTTP " : "a token is needed (HTTP ") + std::to_string(status) + ")");
  }
  if (status == http::status_code::upgrade_required && lists(header(head.bytes, "upgrade"), kTlsUpgrade))
    return failed(Errc::protocol, "the agent uses TLS: use wss://");
  // What gateways make of a token that has expired: the way to a login page, or an error page for people.
  if (status >= 300 && status < 400) {
    const std::string where = redirect_target(header(head.bytes, "location"));
    return failed(Errc::unauthorized,
                  "the server redirects" + (where.empty() ? std::string{} : " to " + where) +
                      ", which is not followed, because the token is for this address only; the TARGET may be wrong, "
                      "or the token is missing or has expired, of which gateways make a login");
  }
  if (status == http::status_code::bad_request && is_html(head.bytes))
    return failed(Errc::unauthorized,
                  "the server answered with an error page (HTTP 400), as gateways do where a token is missing or has "
                  "expired");
  return failed(Errc::protocol, "the server answered " + shown(head.bytes) + " and not a WebSocket upgrade");
}

struct WsServerUpgrade::Core {
  std::string subprotocol;
  WsRandom random;
  WsProcessor processor{false, true, std::make_shared<WsConfig::con_msg_manager_type>(), random};
  WsConfig::request_type request;
  Head head;
  State state = State::more;
  std::string token;
  std::string path;
  base::Bytes response;
  Error failure;

  State refuse(http::status_code::value status, const std::string& why, std::string_view extra = {},
               Errc code = Errc::protocol) {
    response = plain_response(status, extra, why);
    failure = make_error(code, "WebSocket upgrade", why);
    return state = State::refused;
  }
  State judge();
};

WsServerUpgrade::WsServerUpgrade(std::string subprotocol) : core_(std::make_unique<Core>()) {
  core_->subprotocol = std::move(subprotocol);
}
WsServerUpgrade::~WsServerUpgrade() = default;

const std::string& WsServerUpgrade::token() const { return core_->token; }
const std::string& WsServerUpgrade::path() const { return core_->path; }
const base::Bytes& WsServerUpgrade::response() const { return core_->response; }
base::Bytes WsServerUpgrade::take_rest() { return core_->head.take_rest(); }
const Error& WsServerUpgrade::failure() const { return core_->failure; }

WsServerUpgrade::State WsServerUpgrade::receive(std::string_view bytes) {
  Core& core = *core_;
  if (core.state != State::more) return core.state;
  switch (core.head.add(bytes)) {
    case Head::State::more:
      return State::more;
    case Head::State::too_long:
      return core.refuse(http::status_code::request_header_fields_too_large, "the HTTP header is too long");
    case Head::State::not_text:
      return core.refuse(http::status_code::bad_request, "this is not HTTP");
    case Head::State::complete:
      return core.judge();
  }
  return State::refused;
}

WsServerUpgrade::State WsServerUpgrade::Core::judge() {
  try {
    request.consume(head.bytes.data(), head.end);
  } catch (const std::exception&) {
    return refuse(http::status_code::bad_request, "the HTTP request is malformed");
  }
  // A request with a body: the parser waits for it.
  if (!request.ready() || !request.get_header("Transfer-Encoding").empty())
    return refuse(http::status_code::bad_request, "a WebSocket upgrade has no body");
  if (!websocketpp::processor::is_websocket_handshake(request))
    return refuse(http::status_code::upgrade_required, "this is a Sandbar agent: it speaks " + subprotocol + " only",
                  "Upgrade: websocket\r\n");
  if (request.get_header("Sec-WebSocket-Version") != "13")
    return refuse(http::status_code::upgrade_required, "only WebSocket version 13 is spoken here",
                  "Sec-WebSocket-Version: 13\r\n");
  // Browsers send it, and let any page connect anywhere: with --no-auth a page could run commands (RFC 6455, 10.2).
  if (!request.get_header("Origin").empty())
    return refuse(http::status_code::forbidden, "web pages are not let in (the request has an Origin)");
  if (const auto wrong = processor.validate_handshake(request))
    return refuse(http::status_code::bad_request, "not a WebSocket upgrade: " + wrong.message());
  std::string nonce;
  if (!base::base64_decode(request.get_header("Sec-WebSocket-Key"), nonce) || nonce.size() != 16)
    return refuse(http::status_code::bad_request, "the Sec-WebSocket-Key is not 16 bytes");
  path = request.get_uri();
  if (path.empty() || path.front() != '/') return refuse(http::status_code::bad_request, "the request's path is wrong");
  token = bearer(request.get_header("Authorization"));
  return state = State::decide;
}

bool WsServerUpgrade::accept() {
  Core& core = *core_;
  if (!lists(core.request.get_header("Sec-WebSocket-Protocol"), core.subprotocol)) {
    core.refuse(http::status_code::bad_request, "only the subprotocol " + core.subprotocol + " is spoken here");
    return false;
  }
  WsConfig::response_type response;
  response.set_version("HTTP/1.1");
  response.set_status(http::status_code::switching_protocols);
  core.processor.process_handshake(core.request, core.subprotocol, response);
  core.response = response.raw();
  return true;
}

void WsServerUpgrade::refuse_plaintext() {
  core_->refuse(http::status_code::upgrade_required, "this agent speaks TLS: use wss:// (https://)",
                "Upgrade: TLS/1.2, HTTP/1.1\r\n");
}

void WsServerUpgrade::refuse() {
  core_->refuse(http::status_code::unauthorized, "the token is missing or wrong", "WWW-Authenticate: Bearer\r\n",
                Errc::unauthorized);
}

}  // namespace sandbar::net
