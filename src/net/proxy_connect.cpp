// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "net/proxy.h"
#include "net/stream_watch.h"

namespace sandbar::net {
namespace {

constexpr std::string_view kHttp = "HTTP/1.";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::size_t kShown = 100;
constexpr int kProxyAuthenticationRequired = 407;

/// The first line of what came, short and harmless to a terminal.
std::string first_line(std::string_view bytes) {
  return "\"" + base::printable(bytes.substr(0, std::min(bytes.find_first_of("\r\n"), kShown))) + "\"";
}

/// Of "HTTP/1.1 200 OK"; 0 where there is none.
int status_of(std::string_view head) {
  const std::size_t space = head.find(' ');
  if (space == head.npos || head.size() < space + 4) return 0;
  int status = 0;
  for (const char c : head.substr(space + 1, 3)) {
    if (c < '0' || c > '9') return 0;
    status = status * 10 + (c - '0');
  }
  return status;
}

class Connect : public std::enable_shared_from_this<Connect> {
 public:
  Connect(base::Loop& loop, std::unique_ptr<Stream> stream, const Proxy& proxy, const std::string& host,
          std::uint16_t port, base::Function<void(Result<std::unique_ptr<Stream>>)> done)
      : loop_(loop), stream_(std::move(stream)), has_password_(!proxy.authorization.empty()), done_(std::move(done)) {
    const std::string name = (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + std::to_string(port);
    request_ = "CONNECT " + name + " HTTP/1.1\r\nHost: " + name + "\r\nUser-Agent: sandbar/" SANDBAR_VERSION "\r\n";
    if (has_password_) request_ += "Proxy-Authorization: " + proxy.authorization + "\r\n";
    request_ += "\r\n";
    target_ = base::printable(name);
  }

  void start() {
    const auto callback = [weak = weak_from_this()](void (Connect::*step)()) {
      return [weak, step] {
        if (const auto self = weak.lock(); self && self->done_) ((*self).*step)();
      };
    };
    watch_ = std::make_unique<StreamWatch>(loop_, *stream_, callback(&Connect::readable), callback(&Connect::write));
    watch_->want_read(true);
    watch_->want_write(true);
  }
  void abandon() {
    done_ = nullptr;
    release();
  }

 private:
  void write() {
    while (written_ < request_.size()) {
      const iovec piece{request_.data() + written_, request_.size() - written_};
      const ssize_t put = stream_->write(&piece, 1);
      if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (put < 0) break;  // what it said before it went is read first
      written_ += static_cast<std::size_t>(put);
    }
    watch_->want_write(false);
  }

  void readable() {
    std::array<char, 4096> buffer;  // NOLINT: filled by read()
    const ssize_t got = stream_->read(buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      const char* text = got < 0 ? strerrordesc_np(errno) : nullptr;
      return fail(Errc::disconnected, std::string("the proxy closed the connection") +
                                          (text != nullptr ? std::string(": ") + text : std::string{}) +
                                          (head_.empty() ? "" : "; it had sent " + first_line(head_)));
    }
    head_.append(buffer.data(), static_cast<std::size_t>(got));
    judge();
  }

  void judge() {
    const std::string_view start = std::string_view(head_).substr(0, kHttp.size());
    if (start != kHttp.substr(0, start.size()))
      return fail(Errc::protocol, "what answers there is no HTTP proxy: it sent " + first_line(head_));
    const std::size_t end = head_.find(kHeadEnd);
    if (std::min(end, head_.size()) > kMaxProxyHead)
      return fail(Errc::protocol, "the proxy sent an endless HTTP header");
    if (end == head_.npos) return;
    const int status = status_of(head_);
    if (status == kProxyAuthenticationRequired)
      return fail(Errc::disconnected, has_password_
                                          ? "the proxy refused its user or password (HTTP 407); correct HTTPS_PROXY"
                                          : "the proxy asks for a user and a password (HTTP 407); give them in "
                                            "HTTPS_PROXY, as http://USER:PASSWORD@HOST:PORT");
    if (status < 200 || status > 299)
      return fail(Errc::disconnected, "the proxy does not connect to " + target_ + ": it answered " +
                                          first_line(head_) + " (NO_PROXY names hosts that need no proxy)");
    // In TLS the client speaks first, so nothing can have come from the target yet.
    if (head_.size() > end + kHeadEnd.size()) return fail(Errc::protocol, "the proxy sent more than its answer");
    watch_.reset();
    finish(std::move(stream_));
  }

  void fail(Errc code, std::string why) {
    release();
    finish(make_error(code, {}, std::move(why)));
  }
  void finish(Result<std::unique_ptr<Stream>> result) {
    const auto self = shared_from_this();
    auto done = std::exchange(done_, nullptr);
    if (done) done(std::move(result));
  }
  void release() {
    watch_.reset();
    stream_.reset();
  }

  base::Loop& loop_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StreamWatch> watch_;
  const bool has_password_;
  std::string request_;
  std::string target_;
  std::size_t written_ = 0;
  std::string head_;
  base::Function<void(Result<std::unique_ptr<Stream>>)> done_;
};

class Handle final : public PendingProxy {
 public:
  explicit Handle(std::shared_ptr<Connect> connect) : connect_(std::move(connect)) {}
  ~Handle() override { connect_->abandon(); }

 private:
  std::shared_ptr<Connect> connect_;
};

}  // namespace

std::unique_ptr<PendingProxy> connect_through(base::Loop& loop, std::unique_ptr<Stream> stream, const Proxy& proxy,
                                              const std::string& host, std::uint16_t port,
                                              base::Function<void(Result<std::unique_ptr<Stream>>)> done) {
  auto connect = std::make_shared<Connect>(loop, std::move(stream), proxy, host, port, std::move(done));
  connect->start();
  return std::make_unique<Handle>(std::move(connect));
}

}  // namespace sandbar::net
