// SPDX-License-Identifier: Apache-2.0
#include "net/connect.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "net/child_process.h"
#include "net/fd_stream.h"
#include "net/resolve.h"
#include "net/socket.h"
#include "net/stream_transport.h"
#include "net/stream_watch.h"
#include "net/ws_upgrade.h"

namespace sandbar::net {
namespace {

/// A Unix socket whose backlog is full refuses with EAGAIN and has nothing to wait for.
constexpr base::Duration kBacklogRetry = std::chrono::milliseconds(20);
constexpr std::size_t kShownCommand = 100;

std::string bracketed(const std::string& host) { return host.find(':') == std::string::npos ? host : "[" + host + "]"; }

std::string name_of(const Endpoint& endpoint) {
  switch (endpoint.kind) {
    case Endpoint::Kind::tcp:
      return "ws://" + bracketed(endpoint.host) + ":" + std::to_string(endpoint.port) +
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
  void resolved(Result<std::vector<SocketAddress>> found);
  void try_next();
  void try_address(const SocketAddress& address);
  void attempt_finished();
  void attempt_failed(int error);
  void attempt_timed_out() { attempt_failed(ETIMEDOUT); }
  void connected(std::unique_ptr<Stream> stream);
  void write();
  void readable();
  void ended(const std::string& why);
  void upgraded();
  void timed_out();
  void fail(Errc code, std::string detail);
  void release();
  void end_attempt();
  [[nodiscard]] std::string hint(int error) const;

  base::Loop& loop_;
  const Endpoint endpoint_;
  const ConnectOptions options_;
  const std::string name_;
  const base::TimePoint deadline_;
  base::OneShot<std::unique_ptr<Transport>> done_;
  base::TimerId timer_;
  std::string stage_ = "the time was over before it began";

  std::unique_ptr<PendingResolve> resolve_;
  std::vector<SocketAddress> addresses_;
  std::size_t next_address_ = 0;
  int attempt_error_ = 0;  ///< the most telling one so far

  base::UniqueFd socket_;  ///< connecting
  base::WatchId socket_watch_;
  base::TimerId attempt_timer_;

  std::unique_ptr<Stream> stream_;  ///< upgrading
  std::unique_ptr<StreamWatch> watch_;
  std::unique_ptr<WsClientUpgrade> http_;
  std::size_t written_ = 0;
};

void Connector::begin() {
  if (const std::string wrong = wrong_with(endpoint_, options_); !wrong.empty()) return fail(Errc::invalid, wrong);
  switch (endpoint_.kind) {
    case Endpoint::Kind::tcp:
      stage_ = "the name \"" + endpoint_.host + "\" was not resolved";
      resolve_ = resolve(loop_, endpoint_.host, endpoint_.port,
                         [weak = weak_from_this()](Result<std::vector<SocketAddress>> found) {
                           if (const auto self = weak.lock(); self && self->done_) self->resolved(std::move(found));
                         });
      return;
    case Endpoint::Kind::unix_socket: {
      auto address = unix_address(endpoint_.socket_path);
      if (!address) return fail(Errc::invalid, address.error().detail);
      addresses_.push_back(*address);
      return try_next();
    }
    case Endpoint::Kind::command: {
      auto stream = spawn_command(loop_, endpoint_.command);
      if (!stream) return fail(Errc::disconnected, stream.error().message());
      return connected(std::move(*stream));
    }
  }
}

void Connector::resolved(Result<std::vector<SocketAddress>> found) {
  resolve_.reset();
  if (!found) return fail(Errc::disconnected, found.error().detail);
  addresses_ = std::move(*found);
  try_next();
}

/// Each address gets its share of the time that is left: one that swallows packets must not hide the next.
void Connector::try_next() {
  const SocketAddress& address = addresses_[next_address_++];
  stage_ = "nothing answered at " + (address.family() == AF_UNIX ? name_ : to_text(address));
  const std::size_t left = addresses_.size() - next_address_;
  if (left > 0) {
    const base::Duration share = (deadline_ - loop_.now()) / static_cast<base::Duration::rep>(left + 1);
    attempt_timer_ = loop_.schedule(share, guarded(&Connector::attempt_timed_out));
  }
  try_address(address);
}

void Connector::try_address(const SocketAddress& address) {
  auto socket = open_socket(address.family());
  if (!socket) return attempt_failed(socket.error().os_errno);
  socket_ = std::move(*socket);
  tune_socket(socket_.get(), address.family());
  int done = 0;
  do done = ::connect(socket_.get(), address.get(), address.size);
  while (done != 0 && errno == EINTR);
  if (done != 0 && errno == EAGAIN && address.family() == AF_UNIX) {
    socket_.reset();
    --next_address_;
    attempt_timer_ = loop_.schedule(kBacklogRetry, guarded(&Connector::try_next));
    return;
  }
  if (done != 0 && errno != EINPROGRESS) return attempt_failed(errno);
  socket_watch_ = loop_.watch(socket_.get(), base::Readiness::writable, guarded(&Connector::attempt_finished));
}

void Connector::attempt_finished() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return attempt_failed(error);
  loop_.unwatch(std::exchange(socket_watch_, {}));
  base::UniqueFd socket = std::move(socket_);
  end_attempt();
  const SocketAddress& address = addresses_[next_address_ - 1];
  connected(std::make_unique<FdStream>(loop_, std::move(socket), to_text(address)));
}

void Connector::attempt_failed(int error) {
  end_attempt();
  // A family that this machine does not have says less than what an address that it could reach answered.
  const bool no_such_network = error == ENETUNREACH || error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
  if (attempt_error_ == 0 || !no_such_network) attempt_error_ = error;
  if (next_address_ < addresses_.size()) return try_next();
  fail(Errc::disconnected, error_text(attempt_error_) + hint(attempt_error_));
}

void Connector::end_attempt() {
  if (socket_watch_) loop_.unwatch(std::exchange(socket_watch_, {}));
  if (attempt_timer_) loop_.cancel(std::exchange(attempt_timer_, {}));
  socket_.reset();
}

std::string Connector::hint(int error) const {
  if (error == ECONNREFUSED || error == ENOENT) return " (is `sandboxd agent` running there?)";
  if (error == EACCES && endpoint_.kind == Endpoint::Kind::unix_socket)
    return " (the socket belongs to the user who started the agent)";
  if (error == EMFILE || error == ENFILE) return " (see `ulimit -n`)";
  return {};
}

void Connector::connected(std::unique_ptr<Stream> stream) {
  stage_ = endpoint_.kind == Endpoint::Kind::command ? "the command runs, but there was no answer from an agent in it"
                                                     : "it is connected, but nothing answered the WebSocket upgrade";
  stream_ = std::move(stream);
  const bool named = endpoint_.kind == Endpoint::Kind::tcp;
  std::string host = named ? bracketed(endpoint_.host) : "localhost";
  if (named && endpoint_.port != 80) host += ":" + std::to_string(endpoint_.port);
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
  if (const std::string said = http_->received(); !said.empty()) text += "; it had sent " + said;
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
  resolve_.reset();
  end_attempt();
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
