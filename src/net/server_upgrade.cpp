// SPDX-License-Identifier: Apache-2.0
#include "net/server_upgrade.h"

#include <array>
#include <cerrno>
#include <cstring>

#include "net/stream_transport.h"
#include "net/stream_watch.h"
#include "net/tls_handshake.h"
#include "net/ws_upgrade.h"

namespace sandbar::net {
namespace {

/// How long a client that was refused may take to read why. Closing at once could destroy the answer on its way (TCP
/// resets a connection that is closed with unread input).
constexpr base::Duration kLinger = std::chrono::seconds(1);

class Upgrade : public std::enable_shared_from_this<Upgrade> {
 public:
  Upgrade(base::Loop& loop, std::unique_ptr<Stream> stream, ServerUpgrade::Options options,
          base::Function<void(Result<std::unique_ptr<Transport>>)> done)
      : loop_(loop),
        stream_(std::move(stream)),
        peer_(stream_->peer()),
        options_(std::move(options)),
        done_(std::move(done)),
        http_(options_.subprotocol) {}

  void start() {
    timer_ = loop_.schedule(options_.timeout, callback(&Upgrade::timed_out));
    if (!options_.tls) return begin_http();
    auto made = TlsStream::server(loop_, options_.tls, std::move(stream_));
    tls_ = tls_handshake(loop_, std::move(*made), [weak = weak_from_this()](std::unique_ptr<TlsStream> shaken) {
      if (const auto self = weak.lock()) self->shaken(std::move(shaken));
    });
  }
  void abandon() {
    done_ = nullptr;
    release();
  }

 private:
  enum class Stage { request, response, refusal, linger };

  base::Task callback(void (Upgrade::*step)()) {
    return [weak = weak_from_this(), step] {
      if (const auto self = weak.lock()) ((*self).*step)();
    };
  }
  void shaken(std::unique_ptr<TlsStream> stream) {
    tls_.reset();
    const auto failure = stream->failure();
    if (!failure) {
      stream_ = std::move(stream);
      return begin_http();
    }
    if (!stream->peer_speaks_no_tls()) return finish(make_error(failure->code, "TLS handshake", failure->detail));
    // Most likely a client that was told ws://. It understands HTTP, so it is told what is wrong.
    stream_ = stream->take_inner();
    begin_http();
    http_.refuse_plaintext();
    answer(Stage::refusal);
  }
  void begin_http() {
    watch_ = std::make_unique<StreamWatch>(loop_, *stream_, callback(&Upgrade::readable), callback(&Upgrade::write));
    watch_->want_read(true);
  }
  void readable() {
    std::array<char, 16 * 1024> buffer;  // NOLINT: filled by read()
    const ssize_t got = stream_->read(buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return ended(got < 0 ? errno : 0);
    if (stage_ != Stage::request) return;  // lingering: dropped
    switch (http_.receive({buffer.data(), static_cast<std::size_t>(got)})) {
      case WsServerUpgrade::State::more:
        return;
      case WsServerUpgrade::State::refused:
        return answer(Stage::refusal);
      case WsServerUpgrade::State::decide:
        return decide();
    }
  }
  void decide() {
    const auto self = shared_from_this();
    if (options_.authorize && !options_.authorize({http_.token(), http_.path(), peer_})) http_.refuse();
    if (!stream_) return;  // authorize destroyed its listener, and with it this
    const bool accepted = http_.failure().detail.empty() && http_.accept();
    answer(accepted ? Stage::response : Stage::refusal);
  }
  void answer(Stage stage) {
    stage_ = stage;
    // What a client sends before it has our answer belongs to the WebSocket already, and waits in the kernel.
    watch_->want_read(false);
    write();
  }
  void write() {
    const base::Bytes& response = http_.response();
    while (written_ < response.size()) {
      iovec piece{const_cast<char*>(response.data()) + written_, response.size() - written_};
      const ssize_t put = stream_->write(&piece, 1);
      if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return watch_->want_write(true);
      if (put < 0) return ended(errno);
      written_ += static_cast<std::size_t>(put);
    }
    watch_->want_write(false);
    if (stage_ == Stage::response) return succeed();
    stage_ = Stage::linger;
    stream_->shutdown_write();
    watch_->want_read(true);
    loop_.cancel(timer_);
    timer_ = loop_.schedule(kLinger, callback(&Upgrade::lingered));
  }
  void succeed() {
    watch_.reset();
    loop_.cancel(timer_);
    auto transport = make_stream_transport(loop_, std::move(stream_), WsRole::server, http_.take_rest());
    const auto self = shared_from_this();
    auto done = std::exchange(done_, nullptr);
    if (done) done(std::move(transport));
  }
  void ended(int error) {
    if (stage_ == Stage::linger) return finish(http_.failure());
    const char* text = error != 0 ? strerrordesc_np(error) : nullptr;
    finish(make_error(Errc::disconnected, "WebSocket upgrade",
                      text != nullptr ? text : "the client closed the connection before it asked for the upgrade"));
  }
  void lingered() { finish(http_.failure()); }
  void timed_out() {
    finish(make_error(Errc::timeout, "WebSocket upgrade",
                      tls_ ? "the client did not finish the TLS handshake in time"
                           : "the client did not ask for the upgrade in time"));
  }
  void finish(Error error) {
    const auto self = shared_from_this();
    release();
    error.operation += " from " + peer_;
    auto done = std::exchange(done_, nullptr);
    if (done) done(std::move(error));
  }
  void release() {
    tls_.reset();
    watch_.reset();
    loop_.cancel(timer_);
    stream_.reset();
  }

  base::Loop& loop_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<PendingTls> tls_;  ///< has the stream meanwhile
  std::unique_ptr<StreamWatch> watch_;
  std::string peer_;
  ServerUpgrade::Options options_;
  base::Function<void(Result<std::unique_ptr<Transport>>)> done_;
  WsServerUpgrade http_;
  Stage stage_ = Stage::request;
  std::size_t written_ = 0;
  base::TimerId timer_;
};

class UpgradeHandle final : public ServerUpgrade {
 public:
  explicit UpgradeHandle(std::shared_ptr<Upgrade> upgrade) : upgrade_(std::move(upgrade)) {}
  ~UpgradeHandle() override { upgrade_->abandon(); }

 private:
  std::shared_ptr<Upgrade> upgrade_;
};

}  // namespace

std::unique_ptr<ServerUpgrade> upgrade_server(base::Loop& loop, std::unique_ptr<Stream> stream,
                                              ServerUpgrade::Options options,
                                              base::Function<void(Result<std::unique_ptr<Transport>>)> done) {
  auto upgrade = std::make_shared<Upgrade>(loop, std::move(stream), std::move(options), std::move(done));
  upgrade->start();
  return std::make_unique<UpgradeHandle>(std::move(upgrade));
}

}  // namespace sandbar::net
