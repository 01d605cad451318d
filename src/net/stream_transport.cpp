// SPDX-License-Identifier: Apache-2.0
#include "net/stream_transport.h"

#include <climits>
#include <cstring>
#include <deque>
#include <optional>

#include "base/text.h"
#include "base/thread_check.h"
#include "net/stream_watch.h"

namespace sandbar::net {
namespace {

/// Not writable while so much waits here: about one fragment, so that the scheduler above decides late.
constexpr std::size_t kHighMark = 256 * 1024;
/// One read(2). A Unix socket gives at most 208 KiB at once by default, TCP and pipes less.
constexpr std::size_t kReadChunk = 256 * 1024;
/// One writev(2): enough small frames to be worth it.
constexpr int kGather = 64;
/// Written before other descriptors get their turn.
constexpr std::size_t kWriteBudget = 1024 * 1024;
/// A peer that pings and never reads gets no more pongs beyond this.
constexpr std::size_t kMaxAnswers = 2 * kHighMark;
constexpr base::Duration kCloseTime = std::chrono::seconds(2);

Error system_failure(int error, const std::string& peer) {
  const char* text = strerrordesc_np(error);
  return make_error(Errc::disconnected, "connection to " + peer,
                    text != nullptr ? text : "error " + std::to_string(error));
}

/// What a transport consists of. Held by WsTransport, and for a moment by each callback, so that the handler may
/// destroy the transport inside any of its calls: every call of the handler is followed by a look at handler_.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(base::Loop& loop, std::unique_ptr<Stream> stream, WsRole role, base::Bytes rest)
      : loop_(loop),
        stream_(std::move(stream)),
        peer_(stream_->peer()),
        codec_(role, kMaxTransportMessage),
        rest_(std::move(rest)) {}

  void open();
  void start(Transport::Handler& handler);
  void abandon();
  void send(base::Bytes message);
  void send_last(base::Bytes message);
  void close(std::string_view reason);
  [[nodiscard]] bool writable() const { return !blocked_ && queued_ < kHighMark; }
  [[nodiscard]] std::size_t queued() const { return queued_; }
  [[nodiscard]] const std::string& peer() const { return peer_; }
  [[nodiscard]] base::Loop& loop() const { return loop_; }

 private:
  /// Runs `step` later, if this lives still.
  void later(void (Connection::*step)());
  void begin_reading();
  void readable();
  void received(char* data, std::size_t size);
  void deliver();
  void peer_closed();
  void peer_broke();
  void flush();
  std::size_t write_some();
  void wrote(std::size_t bytes);
  void push(base::Bytes bytes);
  void queue_flush();
  void write_failed(int error);
  void begin_close(std::uint16_t code, std::string_view reason, Error final);
  void ended(Error reason);
  void limit_close();
  void finish();
  void finish_if_flushed();
  void release();

  base::Loop& loop_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StreamWatch> watch_;
  std::string peer_;
  WsCodec codec_;
  base::Bytes rest_;
  Transport::Handler* handler_ = nullptr;
  bool started_ = false;
  std::vector<base::Bytes> messages_;  ///< complete, about to be delivered

  std::deque<base::Bytes> out_;
  std::size_t out_offset_ = 0;  ///< into out_.front()
  std::size_t queued_ = 0;
  bool blocked_ = false;  ///< the kernel did not take everything
  bool tell_writable_ = false;
  bool flush_queued_ = false;
  bool write_dead_ = false;  ///< nobody reads what we send any more

  bool closing_ = false;        ///< our close frame is queued or sent
  std::optional<Error> final_;  ///< what on_closed will say
  bool peer_done_ = false;      ///< nothing is awaited from the peer any more: over when our close frame is flushed
  bool ended_ = false;          ///< the stream gives nothing any more
  bool over_ = false;
  base::TimerId close_timer_;
};

void Connection::open() {
  const auto callback = [weak = weak_from_this()](void (Connection::*step)()) {
    return [weak, step] {
      if (const auto self = weak.lock()) ((*self).*step)();
    };
  };
  watch_ =
      std::make_unique<StreamWatch>(loop_, *stream_, callback(&Connection::readable), callback(&Connection::flush));
}

void Connection::later(void (Connection::*step)()) {
  loop_.post([weak = weak_from_this(), step] {
    if (const auto self = weak.lock()) ((*self).*step)();
  });
}

void Connection::start(Transport::Handler& handler) {
  const bool told = over_ && started_ && handler_ == nullptr;
  handler_ = &handler;
  if (started_ && !told) return;
  started_ = true;
  later(&Connection::begin_reading);
}

void Connection::begin_reading() {
  if (over_) {
    // It ended before anybody listened.
    if (handler_ != nullptr) std::exchange(handler_, nullptr)->on_closed(*final_);
    return;
  }
  base::Bytes rest = std::exchange(rest_, {});
  if (!rest.empty()) received(rest.data(), rest.size());
  if (!over_ && watch_) watch_->want_read(true);
}

void Connection::abandon() {
  handler_ = nullptr;
  over_ = true;
  release();
}

void Connection::release() {
  if (close_timer_) loop_.cancel(std::exchange(close_timer_, {}));
  watch_.reset();
  stream_.reset();
  out_.clear();
  queued_ = 0;
}

void Connection::send(base::Bytes message) {
  if (over_ || closing_ || ended_ || write_dead_) return;
  base::Bytes header = codec_.frame(message);
  push(std::move(header));
  push(std::move(message));
  if (!writable()) tell_writable_ = true;
  queue_flush();
}

void Connection::send_last(base::Bytes message) {
  handler_ = nullptr;
  send(std::move(message));
  if (!over_ && watch_ && !blocked_) flush();
}

void Connection::push(base::Bytes bytes) {
  if (bytes.empty()) return;
  queued_ += bytes.size();
  out_.push_back(std::move(bytes));
}

// Not at once: what is sent in one turn of the loop goes out with one system call.
void Connection::queue_flush() {
  if (blocked_ || std::exchange(flush_queued_, true)) return;
  later(&Connection::flush);
}

void Connection::flush() {
  flush_queued_ = false;
  if (over_ || ended_) return;
  std::size_t budget = kWriteBudget;
  while (!out_.empty()) {
    const std::size_t wrote_now = write_some();
    if (wrote_now == 0 || over_) break;
    if (wrote_now >= budget) {
      queue_flush();
      break;
    }
    budget -= wrote_now;
  }
  if (over_) return;
  watch_->want_write(blocked_);
  finish_if_flushed();
  if (!over_ && tell_writable_ && writable() && handler_ != nullptr && !final_) {
    tell_writable_ = false;
    handler_->on_writable();
  }
}

/// One writev(2). 0: the kernel takes nothing now, or never will.
std::size_t Connection::write_some() {
  iovec pieces[kGather];
  int count = 0;
  for (auto piece = out_.begin(); piece != out_.end() && count < kGather; ++piece, ++count) {
    const std::size_t skip = count == 0 ? out_offset_ : 0;
    pieces[count] = {piece->data() + skip, piece->size() - skip};
  }
  const ssize_t put = stream_->write(pieces, count);
  if (put < 0) {
    blocked_ = errno == EAGAIN || errno == EWOULDBLOCK;
    if (!blocked_) write_failed(errno);
    if (blocked_) tell_writable_ = true;
    return 0;
  }
  wrote(static_cast<std::size_t>(put));
  blocked_ = false;
  return static_cast<std::size_t>(put);
}

void Connection::wrote(std::size_t bytes) {
  queued_ -= bytes;
  bytes += out_offset_;
  while (!out_.empty() && bytes >= out_.front().size()) {
    bytes -= out_.front().size();
    out_.pop_front();
  }
  out_offset_ = bytes;
}

/// What the peer said last may still wait to be read (its reason, above all), so reading goes on until its end; but not
/// for ever: on a pipe the two directions end apart.
void Connection::write_failed(int error) {
  write_dead_ = true;
  out_.clear();
  out_offset_ = 0;
  queued_ = 0;
  if (!final_) final_ = system_failure(error, peer_);
  limit_close();
}

void Connection::readable() {
  if (over_ || ended_) return;
  // One buffer a thread: what is read is taken before anything else reads.
  thread_local const std::unique_ptr<char[]> buffer(new char[kReadChunk]);
  const ssize_t got = stream_->read(buffer.get(), kReadChunk);
  if (got > 0) return received(buffer.get(), static_cast<std::size_t>(got));
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
  ended(got == 0 ? make_error(Errc::disconnected, "connection to " + peer_, "the peer ended it without a word")
                 : system_failure(errno, peer_));
}

void Connection::received(char* data, std::size_t size) {
  if (codec_.state() != WsCodec::State::open) return;  // behind a close frame, or behind nonsense
  const WsCodec::State state = codec_.receive(data, size, messages_);
  base::Bytes answer = codec_.take_answer();
  if (!answer.empty() && !closing_ && !write_dead_ && queued_ < kMaxAnswers) {
    push(std::move(answer));
    queue_flush();
  }
  deliver();
  if (over_ || state == WsCodec::State::open) return;
  peer_done_ = state == WsCodec::State::closed || closing_;
  if (state == WsCodec::State::closed)
    peer_closed();
  else
    peer_broke();
  finish_if_flushed();
}

void Connection::deliver() {
  // Moved out: the handler may destroy the transport. After close() messages are not for the handler any more.
  std::vector<base::Bytes> messages = std::exchange(messages_, {});
  for (base::Bytes& message : messages) {
    if (handler_ == nullptr || closing_) return;
    handler_->on_message(std::move(message));
  }
}

void Connection::peer_closed() {
  const std::string& reason = codec_.close_reason();
  begin_close(codec_.close_code(), reason,
              make_error(Errc::disconnected, "connection to " + peer_,
                         reason.empty() ? "the peer closed it" : "the peer closed it: " + base::printable(reason)));
}

void Connection::peer_broke() {
  Error failure = codec_.failure();
  failure.operation = "connection to " + peer_;
  begin_close(codec_.close_code(), codec_.failure().detail, std::move(failure));
}

void Connection::close(std::string_view reason) {
  if (over_) return;
  begin_close(1000, reason,
              make_error(Errc::disconnected, "connection to " + peer_,
                         "closed on this side" + (reason.empty() ? std::string{} : ": " + std::string(reason))));
}

void Connection::begin_close(std::uint16_t code, std::string_view reason, Error final) {
  if (std::exchange(closing_, true)) return;
  final_ = std::move(final);
  if (!write_dead_) push(codec_.close_frame(code, reason));
  queue_flush();
  limit_close();
}

void Connection::limit_close() {
  if (close_timer_) return;
  close_timer_ = loop_.schedule(kCloseTime, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->finish();
  });
}

void Connection::finish_if_flushed() {
  if (over_ || !closing_ || !out_.empty()) return;
  if (peer_done_) return finish();
  // Its close frame would not be understood any more, only its end. Closing now instead would let TCP answer what is
  // still on the way with a reset, which overtakes our reason.
  if (codec_.state() == WsCodec::State::broken && stream_) stream_->shutdown_write();
}

void Connection::ended(Error reason) {
  ended_ = true;
  watch_->want_read(false);
  watch_->want_write(false);
  if (closing_) return finish();
  final_ = std::move(reason);
  stream_->explain_end([weak = weak_from_this()](const std::string& why) {
    const auto self = weak.lock();
    if (!self || self->over_) return;
    if (!why.empty()) self->final_->detail = why;
    self->finish();
  });
}

void Connection::finish() {
  if (std::exchange(over_, true)) return;
  release();
  // Not started yet: begin_reading() tells it.
  if (handler_ != nullptr) std::exchange(handler_, nullptr)->on_closed(*final_);
}

class WsTransport final : public Transport {
 public:
  explicit WsTransport(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~WsTransport() override {
    SANDBAR_ON_LOOP(connection_->loop());
    connection_->abandon();
  }

  void start(Handler& handler) override { connection_->start(handler); }
  void send(base::Bytes message) override {
    SANDBAR_ON_LOOP(connection_->loop());
    connection_->send(std::move(message));
  }
  [[nodiscard]] bool writable() const override { return connection_->writable(); }
  [[nodiscard]] std::size_t queued() const override { return connection_->queued(); }
  void send_last(base::Bytes message) override {
    SANDBAR_ON_LOOP(connection_->loop());
    connection_->send_last(std::move(message));
  }
  void close(std::string_view reason) override { connection_->close(reason); }
  [[nodiscard]] std::string peer() const override { return connection_->peer(); }

 private:
  std::shared_ptr<Connection> connection_;
};

}  // namespace

std::unique_ptr<Transport> make_stream_transport(base::Loop& loop, std::unique_ptr<Stream> stream, WsRole role,
                                                 base::Bytes rest) {
  auto connection = std::make_shared<Connection>(loop, std::move(stream), role, std::move(rest));
  connection->open();
  return std::make_unique<WsTransport>(std::move(connection));
}

}  // namespace sandbar::net
