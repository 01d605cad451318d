// SPDX-License-Identifier: Apache-2.0
#include "net/listen.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/log.h"
#include "net/fd_stream.h"
#include "net/resolve.h"
#include "net/server_upgrade.h"
#include "net/socket.h"
#include "net/tls_context.h"

namespace sandbar::net {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr int kBacklog = 1024;
/// Accepted before other descriptors get their turn.
constexpr int kAcceptBatch = 32;
/// Out of descriptors or memory: tried again after this. Nobody tells when one is free.
constexpr base::Duration kExhaustedPause = std::chrono::milliseconds(100);

bool is_unix(const std::string& address) { return address.rfind(kUnixPrefix, 0) == 0; }

/// The socket file that we made; removed again when it is still ours.
class SocketFile {
 public:
  SocketFile() = default;
  explicit SocketFile(std::string path) : path_(std::move(path)) {
    if (::lstat(path_.c_str(), &made_) != 0) path_.clear();
  }
  SocketFile(SocketFile&& other) noexcept : path_(std::exchange(other.path_, {})), made_(other.made_) {}
  SocketFile& operator=(SocketFile&&) = delete;
  ~SocketFile() {
    struct stat now {};
    if (!path_.empty() && ::lstat(path_.c_str(), &now) == 0 && now.st_ino == made_.st_ino && now.st_dev == made_.st_dev)
      ::unlink(path_.c_str());
  }

 private:
  std::string path_;
  struct stat made_ {};
};

/// Null: none.
using Tls = std::shared_ptr<const TlsContext>;

Result<Tls> load_tls(const ListenOptions& options) {
  if (options.tls_certificate.empty() && options.tls_key.empty()) return Tls();
  if (options.tls_certificate.empty() || options.tls_key.empty())
    return make_error(Errc::invalid, "listen", "TLS needs both a certificate and its key");
  auto context = TlsContext::server(options.tls_certificate, options.tls_key);
  // An errno would say something of the address, to those who look at it.
  if (!context) return make_error(Errc::invalid, context.error().message());
  return std::move(*context);
}

class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(base::Loop& loop, base::UniqueFd socket, std::string url, ListenOptions options, Tls tls)
      : loop_(loop),
        socket_(std::move(socket)),
        url_(std::move(url)),
        options_(std::move(options)),
        tls_(std::move(tls)) {}

  void start() { resume(); }
  void abandon() {
    closed_ = true;
    pause();
    if (retry_) loop_.cancel(retry_);
    upgrades_.clear();
    socket_.reset();
  }
  [[nodiscard]] const std::string& url() const { return url_; }
  Result<void> reload() {
    auto fresh = load_tls(options_);
    if (!fresh) return fresh.error();
    tls_ = std::move(*fresh);
    return {};
  }

 private:
  void resume() {
    if (closed_ || watch_ || retry_ || upgrades_.size() >= options_.max_upgrading) return;
    watch_ = loop_.watch(socket_.get(), base::Readiness::readable, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->accept_some();
    });
  }
  void pause() {
    if (watch_) loop_.unwatch(std::exchange(watch_, {}));
  }
  void accept_some() {
    for (int i = 0; i < kAcceptBatch && upgrades_.size() < options_.max_upgrading; ++i) {
      SocketAddress peer;
      peer.size = sizeof peer.storage;
      base::UniqueFd fd(::accept4(socket_.get(), peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd) {
        begin(std::move(fd), peer);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return exhausted(errno);
      // Anything else is the end of that one connection (accept(2): pending network errors), not of the listener.
    }
    if (upgrades_.size() >= options_.max_upgrading) pause();
  }
  void exhausted(int error) {
    if (!std::exchange(told_exhausted_, true))
      base::log_warning("cannot accept connections on " + url_ + ": " + strerrordesc_np(error) + "; will go on trying");
    pause();
    retry_ = loop_.schedule(kExhaustedPause, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->retry_ = {};
      self->resume();
    });
  }
  void begin(base::UniqueFd fd, const SocketAddress& peer) {
    told_exhausted_ = false;
    tune_socket(fd.get(), peer.family());
    const std::string name = peer.family() == AF_INET || peer.family() == AF_INET6 ? to_text(peer) : "unix";
    const std::uint64_t id = ++last_upgrade_;
    const auto weak = weak_from_this();
    const auto shown = std::make_shared<UpgradeRequest>();
    ServerUpgrade::Options options{options_.subprotocol, options_.upgrade_timeout,
                                   [weak, shown](const UpgradeRequest& request) {
                                     *shown = request;
                                     const auto self = weak.lock();
                                     return self && (!self->options_.authorize || self->options_.authorize(request));
                                   },
                                   tls_};
    upgrades_[id] = upgrade_server(loop_, std::make_unique<FdStream>(loop_, std::move(fd), name), std::move(options),
                                   [weak, id, shown](Result<std::unique_ptr<Transport>> result) {
                                     if (const auto self = weak.lock()) self->upgraded(id, std::move(result), *shown);
                                   });
  }
  void upgraded(std::uint64_t id, Result<std::unique_ptr<Transport>> result, const UpgradeRequest& request) {
    upgrades_.erase(id);
    resume();
    if (result)
      options_.accepted(std::move(*result), request);
    else
      base::log_debug(result.error().message());
  }

  base::Loop& loop_;
  base::UniqueFd socket_;
  std::string url_;
  ListenOptions options_;
  Tls tls_;  ///< of new connections
  bool closed_ = false;
  base::WatchId watch_;
  base::TimerId retry_;
  bool told_exhausted_ = false;  ///< one log line, not ten a second
  std::map<std::uint64_t, std::unique_ptr<ServerUpgrade>> upgrades_;
  std::uint64_t last_upgrade_ = 0;
};

class SocketListener final : public Listener {
 public:
  SocketListener(std::shared_ptr<Acceptor> acceptor, SocketFile file)
      : file_(std::move(file)), acceptor_(std::move(acceptor)) {}
  ~SocketListener() override { acceptor_->abandon(); }
  [[nodiscard]] std::string url() const override { return acceptor_->url(); }
  Result<void> reload() override { return acceptor_->reload(); }

 private:
  SocketFile file_;
  std::shared_ptr<Acceptor> acceptor_;
};

std::string url_of(const SocketAddress& bound, const std::string& unix_path, bool tls) {
  if (bound.family() != AF_UNIX) return (tls ? "wss://" : "ws://") + to_text(bound);
  if (!unix_path.empty()) return std::string(kUnixPrefix) + unix_path;
  sockaddr_un name{};
  std::memcpy(&name, &bound.storage, sizeof name);
  const std::size_t start = offsetof(sockaddr_un, sun_path);
  if (bound.size <= start) return std::string(kUnixPrefix);
  return std::string(kUnixPrefix) + std::string(name.sun_path, ::strnlen(name.sun_path, bound.size - start));
}

/// What is bound decides, not what was asked for: an inherited socket has no text.
Result<void> check_secrecy(const SocketAddress& bound, const ListenOptions& options, bool tls,
                           const std::string& operation) {
  if (bound.family() == AF_UNIX && tls)
    return make_error(Errc::invalid, operation, "TLS is for TCP; a Unix socket does not leave this machine");
  if (tls || options.insecure || is_loopback(bound)) return {};
  return make_error(Errc::invalid, operation,
                    "tokens and data would cross the network unencrypted: give --tls-cert FILE and --tls-key FILE, or "
                    "--insecure where the network can be trusted");
}

/// From a socket that listens.
Result<std::unique_ptr<Listener>> make_listener(base::Loop& loop, base::UniqueFd fd, SocketFile file,
                                                const std::string& path, const std::string& operation,
                                                ListenOptions options) {
  SocketAddress bound;
  bound.size = sizeof bound.storage;
  if (::getsockname(fd.get(), bound.get(), &bound.size) != 0) return os_error(errno, operation);
  auto tls = load_tls(options);
  if (!tls) return tls.error();
  if (auto allowed = check_secrecy(bound, options, *tls != nullptr, operation); !allowed) return allowed.error();
  std::string url = url_of(bound, path, *tls != nullptr);
  auto acceptor = std::make_shared<Acceptor>(loop, std::move(fd), std::move(url), std::move(options), std::move(*tls));
  acceptor->start();
  return std::unique_ptr<Listener>(std::make_unique<SocketListener>(std::move(acceptor), std::move(file)));
}

/// Whether somebody listens on the socket file. A full backlog (EAGAIN) is somebody, too.
bool is_live(const SocketAddress& address) {
  auto probe = open_socket(AF_UNIX);
  return probe && (::connect(probe->get(), address.get(), address.size) == 0 || errno != ECONNREFUSED);
}

/// The path is taken: makes room if what is there is a socket that nobody listens on any more.
Result<void> remove_stale(const std::string& path, const SocketAddress& address, const std::string& operation) {
  struct stat before {};
  if (::lstat(path.c_str(), &before) != 0) return {};  // gone meanwhile
  if (!S_ISSOCK(before.st_mode))
    return make_error(Errc::invalid, operation, "there is something already, and it is not a socket");
  if (is_live(address))
    return make_error(Errc::invalid, operation,
                      "something is listening there already; stop it, or choose another path");
  struct stat after {};
  if (::lstat(path.c_str(), &after) == 0 && (after.st_ino != before.st_ino || after.st_dev != before.st_dev))
    return make_error(Errc::invalid, operation, "something else is starting to listen there");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return os_error(errno, operation, "cannot remove the old socket");
  return {};
}

Result<std::unique_ptr<Listener>> listen_unix(base::Loop& loop, const std::string& given, ListenOptions options) {
  // A client's working directory is another one.
  std::error_code ignored;
  const std::string path =
      given.empty() ? given : std::filesystem::absolute(given, ignored).lexically_normal().string();
  const std::string operation = "listen on unix:" + path;
  auto address = unix_address(path);
  if (!address) return address.error();
  auto fd = open_socket(AF_UNIX);
  if (!fd) return fd.error();
  // Linux makes the file with the socket's own mode (unix(7) says only "less umask"), so it is never open to others.
  if (::fchmod(fd->get(), 0600) != 0) return os_error(errno, operation);
  int bound = ::bind(fd->get(), address->get(), address->size);
  if (bound != 0 && errno == EADDRINUSE) {
    if (auto room = remove_stale(path, *address, operation); !room) return room.error();
    bound = ::bind(fd->get(), address->get(), address->size);
  }
  if (bound != 0) return os_error(errno, operation);
  SocketFile file(path);
  if (::listen(fd->get(), kBacklog) != 0) return os_error(errno, operation);
  return make_listener(loop, std::move(*fd), std::move(file), path, operation, std::move(options));
}

Result<std::unique_ptr<Listener>> listen_tcp(base::Loop& loop, const std::string& text, ListenOptions options) {
  const std::string operation = "listen on " + text;
  auto parsed = parse_host_port(text);
  if (!parsed) return make_error(Errc::invalid, operation, parsed.error().detail);
  std::vector<SocketAddress> addresses = literal_addresses(parsed->host, parsed->port);
  if (addresses.empty()) {
    // Once, at the start of a program: it may block.
    auto found = system_lookup(parsed->host, parsed->port);
    if (!found) return make_error(Errc::invalid, operation, found.error().detail);
    addresses = std::move(*found);
  }
  Error failure;
  for (const SocketAddress& address : addresses) {
    auto fd = open_socket(address.family());
    if (!fd) {
      failure = os_error(fd.error().os_errno, operation);
      continue;
    }
    const int on = 1;
    ::setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd->get(), address.get(), address.size) == 0 && ::listen(fd->get(), kBacklog) == 0)
      return make_listener(loop, std::move(*fd), {}, {}, operation, std::move(options));
    failure = os_error(errno, operation);
  }
  return failure;
}

}  // namespace

Result<std::unique_ptr<Listener>> listen(base::Loop& loop, const std::string& address, ListenOptions options) {
  if (is_unix(address)) return listen_unix(loop, address.substr(kUnixPrefix.size()), std::move(options));
  return listen_tcp(loop, address, std::move(options));
}

Result<std::unique_ptr<Listener>> listen_inherited(base::Loop& loop, base::UniqueFd socket, ListenOptions options) {
  const std::string operation = "listen on the inherited descriptor " + std::to_string(socket.get());
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0) return os_error(errno, operation);
  if (listening == 0) return make_error(Errc::invalid, operation, "it is not a listening socket");
  if (auto set = set_non_blocking(socket.get()); !set) return os_error(set.error().os_errno, operation);
  ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  return make_listener(loop, std::move(socket), {}, {}, operation, std::move(options));
}

bool is_local_address(const std::string& address) {
  if (is_unix(address)) return true;
  const auto parsed = parse_host_port(address);
  if (!parsed) return false;
  const auto addresses = literal_addresses(parsed->host, parsed->port);
  return !addresses.empty() && is_loopback(addresses.front());
}

}  // namespace sandbar::net
