// SPDX-License-Identifier: Apache-2.0
#include "net/connect.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "net/child_process.h"
#include "net/dial.h"
#include "net/fd_stream.h"
#include "net/off_loop.h"
#include "net/proxy.h"
#include "net/resolve.h"
#include "net/socket.h"
#include "net/stream_transport.h"
#include "net/stream_watch.h"
#include "net/tls_handshake.h"
#include "net/ws_upgrade.h"

namespace sandbar::net {
namespace {

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;
constexpr std::size_t kShownCommand = 100;

std::string bracketed(const std::string& host) { return host.find(':') == std::string::npos ? host : "[" + host + "]"; }

std::string name_of(const Endpoint& endpoint) {
  switch (endpoint.kind) {
    case Endpoint::Kind::tcp:
      return (endpoint.tls ? "wss://" : "ws://") + bracketed(endpoint.host) + ":" + std::to_string(endpoint.port) +
             (endpoint.http_path == "/" ? std::string{} : endpoint.http_path);
    case Endpoint::Kind::unix_socket:
      return "unix:" + endpoint.socket_path;
    case Endpoint::Kind::command: {
      const bool cut = endpoint.command.size() > kShownCommand;
      return "exec:" + endpoint.command.substr(0, kShownCommand) + (cut ? "..." : "");
    }
  }
  return {};
}

bool plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

/// What would break out of its HTTP header, or can never be right.
std::string wrong_with(const Endpoint& endpoint, const ConnectOptions& options) {
  if (!plain(options.token))
    return "the token has characters that no token has: white space, control or non-ASCII ones";
  if (!plain(endpoint.http_path) || endpoint.http_path.empty() || endpoint.http_path.front() != '/')
    return "the HTTP path must begin with / and have no white space";
  if (endpoint.kind == Endpoint::Kind::tcp && (endpoint.host.empty() || !plain(endpoint.host)))
    return "the host's name is empty or has characters that no name has";
  if (endpoint.kind == Endpoint::Kind::command && endpoint.command.find_first_not_of(" \t\n") == std::string::npos)
    return "the command is empty";
  if (endpoint.command.find('\0') != std::string::npos) return "the command has a NUL byte";
  return {};
}

std::string error_text(int error) {
  const char* text = strerrordesc_np(error);
  return text != nullptr ? text : "error " + std::to_string(error);
}

class Connector : public std::enable_shared_from_this<Connector> {
 public:
  Connector(base::Loop& loop, Endpoint endpoint, ConnectOptions options, base::OneShot<std::unique_ptr<Transport>> done)
      : loop_(loop),
        endpoint_(std::move(endpoint)),
        options_(std::move(options)),
        name_(base::printable(name_of(endpoint_))),
        deadline_(loop.now() + options_.timeout),
        done_(std::move(done)) {}

  void start() {
    timer_ = loop_.schedule(options_.timeout, guarded(&Connector::timed_out));
    loop_.post(guarded(&Connector::begin));
  }
  void abandon() {
    release();
    // Its owner hears that it was cancelled; last, because that may do anything.
    base::OneShot<std::unique_ptr<Transport>> dropped = std::move(done_);
  }

 private:
  base::Task guarded(void (Connector::*step)()) {
    return [weak = weak_from_this(), step] {
      if (const auto self = weak.lock(); self && self->done_) ((*self).*step)();
    };
  }

  void begin();
  void begin_tcp();
  void load_trust();
  void find(const std::string& host, std::uint16_t port);
  void resolved(Result<std::vector<SocketAddress>> found);
  void dial(std::vector<SocketAddress> addresses);
  void dialed(Result<Dialed> connection);
  void connected(std::unique_ptr<Stream> stream);
  void begin_tls(std::unique_ptr<Stream> stream);
  void upgrade(std::unique_ptr<Stream> stream);
  void write();
  void readable();
  void ended(const std::string& why);
  void upgraded();
  void timed_out();
  void fail(Errc code, std::string detail);
  void release();
  [[nodiscard]] std::string hint(int error) const;
  /// As a completion: runs `step` if this is still wanted.
  template <class T>
  base::Function<void(T)> completion(void (Connector::*step)(T)) {
    return [weak = weak_from_this(), step](T result) {
      if (const auto self = weak.lock(); self && self->done_) ((*self).*step)(std::move(result));
    };
  }

  base::Loop& loop_;
  const Endpoint endpoint_;
  const ConnectOptions options_;
  const std::string name_;
  const base::TimePoint deadline_;
  base::OneShot<std::unique_ptr<Transport>> done_;
  base::TimerId timer_;
  std::string stage_ = "the time was over before it began";

  std::optional<Proxy> proxy_;
  std::shared_ptr<const TlsContext> trust_;

  // One for each stage; at most one is there at a time.
  std::unique_ptr<OffLoop<std::shared_ptr<const TlsContext>>> trust_loading_;
  std::unique_ptr<PendingResolve> resolve_;
  std::unique_ptr<PendingDial> dial_;
  std::unique_ptr<PendingProxy> proxying_;
  std::unique_ptr<PendingTls> tls_;

  std::unique_ptr<Stream> stream_;  ///< upgrading
  std::unique_ptr<StreamWatch> watch_;
  std::unique_ptr<WsClientUpgrade> http_;
  std::size_t written_ = 0;
};

void Connector::begin() {
  if (const std::string wrong = wrong_with(endpoint_, options_); !wrong.empty()) return fail(Errc::invalid, wrong);
  switch (endpoint_.kind) {
    case Endpoint::Kind::tcp:
      return begin_tcp();
    case Endpoint::Kind::unix_socket: {
      auto address = unix_address(endpoint_.socket_path);
      if (!address) return fail(Errc::invalid, address.error().detail);
      return dial({*address});
    }
    case Endpoint::Kind::command: {
      auto stream = spawn_command(loop_, endpoint_.command);
      if (!stream) return fail(Errc::disconnected, stream.error().message());
      return upgrade(std::move(*stream));
    }
  }
}

void Connector::begin_tcp() {
  if (!endpoint_.tls) return find(endpoint_.host, endpoint_.port);
  auto proxy = choose_proxy(options_.proxy, endpoint_.host, endpoint_.port);
  if (!proxy) return fail(proxy.error().code, proxy.error().message());
  proxy_ = std::move(*proxy);
  load_trust();
}

/// Off the loop: the system's certificates are some hundred kilobytes, and the CA file may be on a file system that
/// hangs, even on the mount that this connection is for.
void Connector::load_trust() {
  stage_ = "the CA certificates were not read";
  trust_loading_ = std::make_unique<OffLoop<std::shared_ptr<const TlsContext>>>(
      loop_, "read the CA certificates", [file = options_.ca_file] { return TlsContext::client(file); },
      [weak = weak_from_this()](Result<std::shared_ptr<const TlsContext>> loaded) {
        const auto self = weak.lock();
        if (!self || !self->done_) return;
        self->trust_loading_.reset();
        if (!loaded) return self->fail(Errc::invalid, loaded.error().message());
        self->trust_ = std::move(*loaded);
        if (self->proxy_) return self->find(self->proxy_->host, self->proxy_->port);
        self->find(self->endpoint_.host, self->endpoint_.port);
      });
}

void Connector::find(const std::string& host, std::uint16_t port) {
  stage_ = "the name \"" + host + "\" was not resolved";
  resolve_ = resolve(loop_, host, port, completion(&Connector::resolved));
}

void Connector::resolved(Result<std::vector<SocketAddress>> found) {
  resolve_.reset();
  if (!found) return fail(Errc::disconnected, (proxy_ ? "the proxy: " : "") + found.error().detail);
  if (!endpoint_.tls && !options_.insecure)
    for (const SocketAddress& address : *found)
      if (!is_loopback(address))
        return fail(Errc::invalid, "ws:// would send the token and all data unencrypted to another machine (" +
                                       to_text(address) +
                                       "); use wss://, or --insecure (-o insecure) where the network can be trusted");
  dial(std::move(*found));
}

void Connector::dial(std::vector<SocketAddress> addresses) {
  std::string where = addresses.front().family() == AF_UNIX ? name_ : to_text(addresses.front());
  if (addresses.size() > 1) where += " and " + std::to_string(addresses.size() - 1) + " other addresses";
  stage_ = "nothing answered at " + (proxy_ ? "the proxy, " : std::string{}) + where;
  dial_ = net::dial(loop_, std::move(addresses), completion(&Connector::dialed));
}

void Connector::dialed(Result<Dialed> connection) {
  dial_.reset();
  if (!connection) {
    const int error = connection.error().os_errno;
    return fail(Errc::disconnected,
                (proxy_ ? "the proxy " + bracketed(proxy_->host) + ":" + std::to_string(proxy_->port) + ": " : "") +
                    error_text(error) + (proxy_ ? std::string{} : hint(error)));
  }
  const bool is_unix = connection->address.family() == AF_UNIX;
  const std::string peer = is_unix ? "unix" : to_text(connection->address);
  auto stream = std::make_unique<FdStream>(loop_, std::move(connection->socket), peer);
  if (!proxy_) return connected(std::move(stream));
  stage_ = "the proxy " + peer + " did not answer";
  proxying_ = connect_through(loop_, std::move(stream), *proxy_, endpoint_.host, endpoint_.port,
                              [weak = weak_from_this()](Result<std::unique_ptr<Stream>> through) {
                                const auto self = weak.lock();
                                if (!self || !self->done_) return;
                                self->proxying_.reset();
                                if (!through) return self->fail(through.error().code, through.error().detail);
                                self->connected(std::move(*through));
                              });
}

void Connector::connected(std::unique_ptr<Stream> stream) {
  if (trust_) return begin_tls(std::move(stream));
  upgrade(std::move(stream));
}

void Connector::begin_tls(std::unique_ptr<Stream> stream) {
  stage_ = "it is connected, but nothing answered the TLS handshake; the agent may not use TLS (then try ws://)";
  auto made = TlsStream::client(loop_, trust_, std::move(stream), endpoint_.host);
  if (!made) return fail(made.error().code, made.error().detail);
  tls_ = tls_handshake(loop_, std::move(*made), [weak = weak_from_this()](std::unique_ptr<TlsStream> shaken) {
    const auto self = weak.lock();
    if (!self || !self->done_) return;
    self->tls_.reset();
    if (const auto& failure = shaken->failure()) return self->fail(failure->code, failure->detail);
    self->upgrade(std::move(shaken));
  });
}

std::string Connector::hint(int error) const {
  if (error == ECONNREFUSED || error == ENOENT) return " (is `sandboxd agent` running there?)";
  if (error == EACCES && endpoint_.kind == Endpoint::Kind::unix_socket)
    return " (the socket belongs to the user who started the agent)";
  if (error == EMFILE || error == ENFILE) return " (see `ulimit -n`)";
  return {};
}

void Connector::upgrade(std::unique_ptr<Stream> stream) {
  stage_ = endpoint_.kind == Endpoint::Kind::command ? "the command runs, but there was no answer from an agent in it"
                                                     : "it is connected, but nothing answered the WebSocket upgrade";
  stream_ = std::move(stream);
  const bool named = endpoint_.kind == Endpoint::Kind::tcp;
  std::string host = named ? bracketed(endpoint_.host) : "localhost";
  if (named && endpoint_.port != (endpoint_.tls ? kHttpsPort : kHttpPort)) host += ":" + std::to_string(endpoint_.port);
  http_ = std::make_unique<WsClientUpgrade>(
      WsClientOptions{std::move(host), endpoint_.http_path, options_.subprotocol, options_.token});
  watch_ = std::make_unique<StreamWatch>(loop_, *stream_, guarded(&Connector::readable), guarded(&Connector::write));
  watch_->want_read(true);
  write();
}

void Connector::write() {
  const base::Bytes& request = http_->request();
  while (written_ < request.size()) {
    iovec piece{const_cast<char*>(request.data()) + written_, request.size() - written_};
    const ssize_t put = stream_->write(&piece, 1);
    if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return watch_->want_write(true);
    if (put < 0) {
      // What it said before it went (a refusal, a shell's greeting) is read first, then its end is reported.
      written_ = request.size();
      break;
    }
    written_ += static_cast<std::size_t>(put);
  }
  watch_->want_write(false);
}

void Connector::readable() {
  std::array<char, 16 * 1024> buffer;  // NOLINT: filled by read()
  const ssize_t got = stream_->read(buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
  if (got <= 0) {
    watch_.reset();
    const std::string why = got < 0 ? error_text(errno) : std::string{};
    stream_->explain_end([weak = weak_from_this(), why](const std::string& known) {
      if (const auto self = weak.lock(); self && self->done_) self->ended(known.empty() ? why : known);
    });
    return;
  }
  switch (http_->receive({buffer.data(), static_cast<std::size_t>(got)})) {
    case WsClientUpgrade::State::more:
      return;
    case WsClientUpgrade::State::failed:
      return fail(http_->failure().code, http_->failure().detail);
    case WsClientUpgrade::State::upgraded:
      return upgraded();
  }
}

void Connector::ended(const std::string& why) {
  std::string text = why.empty() ? "the connection was closed before the WebSocket upgrade" : why;
  if (const std::string said = http_->received(); !said.empty())
    text += "; it had sent " + said;
  else if (why.empty() && endpoint_.kind == Endpoint::Kind::tcp && !endpoint_.tls)
    text += "; the agent may use TLS: try wss://";
  fail(Errc::disconnected, std::move(text));
}

void Connector::upgraded() {
  watch_.reset();
  auto transport = make_stream_transport(loop_, std::move(stream_), WsRole::client, http_->take_rest());
  release();
  auto done = std::move(done_);
  done(std::move(transport));
}

void Connector::timed_out() {
  using Seconds = std::chrono::duration<double>;
  std::string time = std::to_string(Seconds(options_.timeout).count());
  time.erase(time.find_last_not_of('0') + 1);
  if (time.back() == '.') time.pop_back();
  timer_ = {};
  fail(Errc::timeout, stage_ + " within " + time + " s");
}

void Connector::fail(Errc code, std::string detail) {
  release();
  auto done = std::move(done_);
  done(make_error(code, "connect to " + name_, std::move(detail)));
}

void Connector::release() {
  if (timer_) loop_.cancel(std::exchange(timer_, {}));
  trust_loading_.reset();
  resolve_.reset();
  dial_.reset();
  proxying_.reset();
  tls_.reset();
  watch_.reset();
  stream_.reset();
}

class Pending final : public PendingConnect {
 public:
  explicit Pending(std::shared_ptr<Connector> connector) : connector_(std::move(connector)) {}
  ~Pending() override { connector_->abandon(); }

 private:
  std::shared_ptr<Connector> connector_;
};

}  // namespace

std::unique_ptr<PendingConnect> connect(base::Loop& loop, const Endpoint& endpoint, const ConnectOptions& options,
                                        base::OneShot<std::unique_ptr<Transport>> done) {
  auto connector = std::make_shared<Connector>(loop, endpoint, options, std::move(done));
  connector->start();
  return std::make_unique<Pending>(std::move(connector));
}

}  // namespace sandbar::net
