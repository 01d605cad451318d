// SPDX-License-Identifier: Apache-2.0
#include "unit/mux/simulation.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace sandbar::mux {
namespace {

constexpr std::size_t kKeys = 4096;

Error cut_error() { return make_error(Errc::disconnected, "", "cut"); }

template <class T>
T* any_of(Chance& chance, std::vector<T>& all) {
  return all.empty() ? nullptr : &all[chance.below(all.size())];
}

}  // namespace

std::size_t Chance::size() {
  if (one_in(60)) return below(300'000);
  if (one_in(10)) return below(40'000);
  return below(200);
}

std::string_view piece(std::uint64_t key, std::size_t at, std::size_t size) {
  static const std::string bytes = [] {
    std::mt19937_64 dice(1);
    std::string made(2 * 1024 * 1024 + kKeys, '\0');
    for (std::size_t i = 0; i + 8 <= made.size(); i += 8) {
      const std::uint64_t eight = dice();
      std::memcpy(&made[i], &eight, 8);
    }
    return made;
  }();
  return std::string_view(bytes).substr(key * 1009 % kKeys + at, size);
}

// --- Streams ---------------------------------------------------------------------------------------------------

StreamEnd::StreamEnd(Chance& chance, std::shared_ptr<Channel> channel, bool client_side)
    : chance(chance),
      channel(std::move(channel)),
      out_key(2 * this->channel->id().value + (client_side ? 1 : 0)),
      in_key(2 * this->channel->id().value + (client_side ? 0 : 1)),
      total(chance.one_in(100) ? 1'500'000 : chance.size()) {
  this->channel->set_handler(this);
}

void StreamEnd::push() {
  while (!reset_here && !reset_there && !sent_end) {
    if (written == total) {
      sent_end = true;
      channel->end();
      return;
    }
    const std::size_t count = std::min({channel->budget(), total - written, 1 + chance.below(60'000)});
    if (count == 0) return;
    channel->write(base::Bytes(piece(out_key, written, count)));
    written += count;
    if (chance.one_in(4)) return;
  }
}

void StreamEnd::consume() {
  if (!reset_here) channel->consumed(std::exchange(unconsumed, 0));
}

void StreamEnd::reset() {
  if (reset_here || reset_there || (sent_end && got_end)) return;
  reset_here = true;
  channel->reset(make_error(Errc::cancelled, "", "enough"));
}

void StreamEnd::on_data(base::Bytes data) {
  chance.check(!got_end && !reset_here && !reset_there, "stream data behind its end");
  chance.check(data == piece(in_key, read, data.size()), "stream data that was not sent there");
  read += data.size();
  unconsumed += data.size();
  if (chance.below(2) == 0) consume();
}

void StreamEnd::on_end() {
  chance.check(!got_end, "a stream ended twice");
  got_end = true;
}

void StreamEnd::on_reset(const Error& reason) {
  chance.check(!reset_here && !reset_there, "a stream was reset twice");
  chance.check(reason.code == Errc::cancelled, "a stream was reset, and not by its other end");
  reset_there = true;
}

bool Stream::done() const {
  const StreamEnd* first = ends[0].get();
  const StreamEnd* second = ends[1].get();
  // One that is reset before the peer heard of it was never there.
  if (first == nullptr || second == nullptr) return (first != nullptr ? first : second)->reset_here;
  const auto whole = [](const StreamEnd& reader, const StreamEnd& writer) {
    return reader.got_end && writer.sent_end && reader.read == writer.total;
  };
  if (!first->reset_here && !second->reset_here)
    return !first->reset_there && !second->reset_there && whole(*first, *second) && whole(*second, *first);
  const auto over = [&whole](const StreamEnd& end, const StreamEnd& other) {
    return end.reset_here || end.reset_there || (whole(end, other) && end.sent_end);
  };
  return over(*first, *second) && over(*second, *first);
}

// --- Parties ---------------------------------------------------------------------------------------------------

void Party::act() {
  switch (chance_.below(8)) {
    case 0:
    case 1:
    case 2:
      return ask();
    case 3:
      return open_stream();
    case 4:
      return cancel_one();
    case 5:
      if (!chance_.one_in(6) || streams_.empty()) return;
      {
        auto& stream = std::next(streams_.begin(), static_cast<std::ptrdiff_t>(chance_.below(streams_.size())))->second;
        if (auto& end = stream.ends[is_client_ ? 0 : 1]) end->reset();
      }
      return;
    default:
      return answer_one();
  }
}

void Party::ask() { request("plain", 0); }

void Party::open_stream() {
  auto channel = session->open_channel();
  const std::uint64_t id = channel->id().value;
  auto& end = streams_[id].ends[is_client_ ? 0 : 1];
  end = std::make_unique<StreamEnd>(chance_, std::move(channel), is_client_);
  end->push();
  request("stream", id);
}

void Party::request(std::string kind, std::uint64_t value) {
  auto asked = std::make_shared<Asked>();
  asked->number = asked_.size();
  asked->size = chance_.size();
  RequestOptions options;
  if (chance_.one_in(10)) options.timeout = std::chrono::seconds(1 + chance_.below(30));
  asked->has_deadline = options.timeout > base::Duration::zero();
  asked_.push_back(asked);
  Message message;
  message.head = kind + " " + std::to_string(asked->number) + " " + std::to_string(value);
  message.body = piece(asked->number, 0, asked->size);
  ids_.push_back(session->request(std::move(message), options,
                                  [this, asked](Result<Message> result) { finished(*asked, result); }));
}

void Party::finished(Asked& asked, const Result<Message>& result) {
  ++asked.outcomes;
  if (!result) {
    const Errc code = result.error().code;
    const bool own = (code == Errc::cancelled && asked.cancelled) || (code == Errc::timeout && asked.has_deadline);
    chance_.check(own || (asked.answered && asked.refused == code), "a request failed for no reason");
    return;
  }
  chance_.check(asked.answered && !asked.refused, "an answer that was not given");
  chance_.check(result->head == "answer " + std::to_string(asked.number), "an answer to another request");
  chance_.check(result->body == piece(asked.number + 7, 0, asked.answer_size), "an answer with other bytes");
}

void Party::cancel_one() {
  if (ids_.empty()) return;
  const std::size_t which = chance_.below(ids_.size());
  asked_[which]->cancelled = true;
  session->cancel(ids_[which]);
}

void Party::on_request(Message request, Responder responder) {
  std::istringstream head(request.head);
  std::string kind;
  std::size_t number = 0;
  std::uint64_t value = 0;
  head >> kind >> number >> value;
  if (number >= peer->asked_.size()) return chance_.check(false, "a request that nobody sent");
  const std::shared_ptr<Asked> asked = peer->asked_[number];
  chance_.check(++asked->arrivals == 1, "a request arrived twice");
  chance_.check(request.body == piece(number, 0, asked->size), "a request with other bytes");
  if (kind == "stream") take_stream(value);
  responder.on_cancel([asked] { ++asked->cancels; });
  held_.emplace_back(asked, std::move(responder));
  if (chance_.one_in(3)) answer_one();
}

void Party::take_stream(std::uint64_t id) {
  auto& stream = streams_[id];
  auto channel = session->take_channel(wire::ChannelId(id));
  if (!channel) return chance_.check(stream.ends[is_client_ ? 1 : 0]->reset_here, "a stream that was not opened");
  auto& end = stream.ends[is_client_ ? 0 : 1];
  end = std::make_unique<StreamEnd>(chance_, std::move(channel), is_client_);
  end->push();
}

void Party::answer_one() {
  if (held_.empty()) return;
  std::swap(held_[chance_.below(held_.size())], held_.back());
  auto [asked, responder] = std::move(held_.back());
  held_.pop_back();
  asked->answered = true;
  if (chance_.one_in(8)) {
    asked->refused = Errc::limit;
    return responder.fail(make_error(Errc::limit, "answer", "no"));
  }
  asked->answer_size = chance_.size();
  Message answer;
  answer.head = "answer " + std::to_string(asked->number);
  answer.body = piece(asked->number + 7, 0, asked->answer_size);
  responder.reply(std::move(answer));
}

bool Party::at_rest() const {
  if (detached || !session->attached() || !held_.empty() || session->retained() != 0) return false;
  return std::all_of(asked_.begin(), asked_.end(),
                     [](const auto& asked) { return asked->outcomes > 0 && asked->answered; });
}

void Party::check_requests() {
  for (const auto& asked : asked_) {
    chance_.check(asked->arrivals == 1, "a request did not arrive once");
    chance_.check(asked->outcomes == 1, "a request did not end once");
    chance_.check(asked->cancels <= 1, "a request was cancelled twice");
    chance_.check(asked->cancels == 0 || asked->cancelled || asked->has_deadline, "a request was cancelled by nobody");
  }
}

// --- The network -----------------------------------------------------------------------------------------------

std::unique_ptr<net::Transport> Network::connect() {
  auto [client, agent] = fakes::FakeTransport::pair(loop_);
  Link link;
  link.ends[0] = client->end();
  link.ends[1] = agent->end();
  for (auto& end : link.ends) {
    end->automatic = false;
    if (chance_.one_in(4)) end->high_water = 1 + chance_.below(40'000);
  }
  link.arriving = std::move(agent);
  links_.push_back(std::move(link));
  return std::move(client);
}

Network::Link* Network::any() {
  tidy();
  return any_of(chance_, links_);
}

void Network::tidy() {
  std::erase_if(links_, [](const Link& link) {
    return !link.arriving && (link.ends[0]->closed || link.broken) && (link.ends[1]->closed || link.broken) &&
           link.ends[0]->handler == nullptr && link.ends[1]->handler == nullptr;
  });
}

void Network::deliver_some() {
  Link* link = any();
  if (link == nullptr || link->stuck) return;
  const auto end = link->ends[chance_.below(2)];
  for (std::size_t count = 1 + chance_.below(8); count > 0 && end->deliver_one(); --count) {
    // Not all that a message leads to happens before the next one comes.
    if (chance_.one_in(4)) continue;
    static_cast<fakes::FakeLoop&>(loop_).drain();
  }
}

void Network::deliver_all() {
  auto& loop = static_cast<fakes::FakeLoop&>(loop_);
  for (bool more = true; more;) {
    more = loop.drain() > 0;
    for (std::size_t i = 0; i < links_.size(); ++i)
      for (const auto& end : {links_[i].ends[0], links_[i].ends[1]})
        while (end->deliver_one()) more = true;
  }
}

void Network::arrive() {
  Link* link = any();
  if (link != nullptr && link->arriving) lobby_.accept(std::move(link->arriving));
}

void Network::break_link(Link& link) {
  if (link.broken) return;
  link.broken = true;
  link.stuck = chance_.one_in(2);
  for (auto& end : link.ends) end->peer.reset();
}

void Network::break_one() {
  if (Link* link = any()) break_link(*link);
}

void Network::break_newest() {
  if (!links_.empty()) break_link(links_.back());
}

void Network::tell() {
  Link* link = any();
  if (link != nullptr && link->broken) link->ends[chance_.below(2)]->end(cut_error());
}

void Network::heal() {
  for (Link& link : links_) {
    if (link.arriving) lobby_.accept(std::move(link.arriving));
    if (!link.broken) continue;
    for (auto& end : link.ends) end->end(cut_error());
  }
  tidy();
}

}  // namespace sandbar::mux
