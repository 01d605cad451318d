// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "unit/mux/resume_pair.h"

namespace sandbar::mux {

/// What all parts of one simulated schedule share: its dice, and the first thing that was found wrong.
struct Chance {
  explicit Chance(std::uint64_t seed) : dice(seed) {}
  std::size_t below(std::size_t bound) { return dice() % bound; }
  bool one_in(std::size_t bound) { return below(bound) == 0; }
  /// Mostly little, at times so much that it is cut into several fragments.
  std::size_t size();
  void check(bool holds, const char* what) {
    if (!holds && fault.empty()) fault = what;
  }
  std::mt19937_64 dice;
  std::string fault;
};

/// Bytes that tell where they belong: those of another owner or place do not compare equal. At most 2 MiB a `key`.
std::string_view piece(std::uint64_t key, std::size_t at, std::size_t size);

/// A request, and what became of it on both sides.
struct Asked {
  std::uint64_t number = 0;
  std::size_t size = 0;
  bool has_deadline = false;
  bool cancelled = false;
  int arrivals = 0;
  int cancels = 0;
  int outcomes = 0;
  // The answer that was given, if it was.
  bool answered = false;
  std::optional<Errc> refused;
  std::size_t answer_size = 0;
};

class Party;

/// One end of a stream that writes so much, and reads what the other end writes.
class StreamEnd final : public Channel::Handler {
 public:
  StreamEnd(Chance& chance, std::shared_ptr<Channel> channel, bool client_side);
  void push();
  void consume();
  void reset();
  void on_data(base::Bytes data) override;
  void on_end() override;
  void on_reset(const Error& reason) override;
  void on_writable() override { push(); }

  Chance& chance;
  std::shared_ptr<Channel> channel;
  std::uint64_t out_key;
  std::uint64_t in_key;
  std::size_t total;
  std::size_t written = 0;
  std::size_t read = 0;
  std::size_t unconsumed = 0;
  bool sent_end = false;
  bool got_end = false;
  bool reset_here = false;
  bool reset_there = false;
};

/// Both ends of a stream; the second is there once the peer was told of it.
struct Stream {
  std::unique_ptr<StreamEnd> ends[2];
  [[nodiscard]] bool done() const;
};
using Streams = std::map<std::uint64_t, Stream>;

/// A side: asks, answers, opens streams. Checks what arrives.
class Party final : public Session::Handler {
 public:
  Party(Chance& chance, Streams& streams, bool is_client) : chance_(chance), streams_(streams), is_client_(is_client) {}
  void act();
  void ask();
  void open_stream();
  void cancel_one();
  void answer_one();
  [[nodiscard]] bool at_rest() const;
  /// Why the requests did not end as they should have; empty when they did.
  void check_requests();

  void on_ready(const wire::Hello&) override {}
  void on_request(Message request, Responder responder) override;
  void on_detached(const Error&) override { detached = true; }
  void on_resumed(const wire::Hello&) override { detached = false; }
  void on_closed(const Error& reason) override {
    chance_.check(false, ("a session ended: " + reason.message()).c_str());
  }

  Session* session = nullptr;
  Party* peer = nullptr;
  bool detached = false;

 private:
  void request(std::string kind, std::uint64_t value);
  void finished(Asked& asked, const Result<Message>& result);
  void take_stream(std::uint64_t id);

  Chance& chance_;
  Streams& streams_;
  const bool is_client_;
  std::vector<std::shared_ptr<Asked>> asked_;
  std::vector<wire::RequestId> ids_;
  std::vector<std::pair<std::shared_ptr<Asked>, Responder>> held_;
};

/// A network that delays, loses connections (with what is on them), and lets them fall silent.
class Network {
 public:
  Network(Chance& chance, base::Loop& loop, Lobby& lobby) : chance_(chance), loop_(loop), lobby_(lobby) {}

  /// The client's end of a new connection; the agent hears of it later.
  std::unique_ptr<net::Transport> connect();
  /// Some messages go on, of one connection and direction.
  void deliver_some();
  void deliver_all();
  /// A connection reaches the agent.
  void arrive();
  /// One breaks: nothing goes on, and nobody is told yet.
  void break_one();
  /// The newest breaks.
  void break_newest();
  /// A side of a broken one is told.
  void tell();
  /// Nothing breaks any more: all that did is told, all that was under way arrives.
  void heal();
  [[nodiscard]] bool empty() const { return links_.empty(); }

 private:
  using End = fakes::FakeTransport::End;
  struct Link {
    std::shared_ptr<End> ends[2];  ///< the client's, the agent's
    std::unique_ptr<net::Transport> arriving;
    bool broken = false;
    bool stuck = false;  ///< broken, and takes nothing
  };
  void break_link(Link& link);
  void tidy();
  Link* any();

  Chance& chance_;
  base::Loop& loop_;
  Lobby& lobby_;
  std::vector<Link> links_;
};

}  // namespace sandbar::mux
