// SPDX-License-Identifier: Apache-2.0
#include "client/grant_keeper.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "base/thread_check.h"
#include "wire/capabilities.h"

namespace sandbar::client {
namespace {

using Reason = GrantWant::Reason;

/// The loop's clock stands still while the machine sleeps, grants do not: the wall clock is looked at this often.
constexpr base::Duration kLook = std::chrono::seconds(30);
/// After a renewal that failed; doubled each time.
constexpr base::Duration kFirstRetry = std::chrono::seconds(1);
constexpr base::Duration kLastRetry = std::chrono::seconds(60);
constexpr base::Duration kAuthorizeTimeout = std::chrono::seconds(30);

}  // namespace

GrantKeeper::GrantKeeper(base::Loop& loop, RemoteFs& remote, std::shared_ptr<GrantSource> source,
                         std::vector<GrantKind> kinds, GrantToken first)
    : loop_(loop), remote_(remote), source_(std::move(source)), held_(kinds.size()) {
  SANDBAR_ON_LOOP(loop_);
  for (std::size_t i = 0; i < kinds.size(); ++i) held_[i].kind = kinds[i];
  if (!held_.empty()) held_.front().token = std::move(first);
}

GrantKeeper::~GrantKeeper() {
  alive_.reset();
  for (Held& held : held_)
    if (held.timer) loop_.cancel(held.timer);
}

bool GrantKeeper::can_authorize() const { return wire::offers(remote_.agent(), wire::kCapabilityAuthorize); }

void GrantKeeper::start(base::OneShot<void> ready) {
  SANDBAR_ON_LOOP(loop_);
  ready_ = std::move(ready);
  loop_.post([this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    if (held_.size() > 1 && !can_authorize())
      return finish(make_error(Errc::unsupported, "", "the agent takes one grant only; it may be of another version"));
    attach_next(1);
  });
}

void GrantKeeper::attach_next(std::size_t index) {
  if (index >= held_.size()) return finish({});
  renew(index, Reason::first, {}, [this, index, alive = std::weak_ptr(alive_)](Result<void> attached) {
    if (alive.expired()) return;
    if (!attached) return finish(std::move(attached));
    attach_next(index + 1);
  });
}

void GrantKeeper::finish(Result<void> outcome) {
  if (outcome && can_authorize())
    for (std::size_t i = 0; i < held_.size(); ++i) wait_for_end(i);
  auto ready = std::move(ready_);
  ready(std::move(outcome));
}

void GrantKeeper::renew(std::size_t index, Reason reason, std::string stale, base::OneShot<void> done) {
  GrantWant want;
  want.kind = held_[index].kind;
  want.reason = reason;
  want.stale = std::move(stale);
  held_[index].pending = source_->get(
      loop_, std::move(want),
      [this, index, reason, alive = std::weak_ptr(alive_), done = std::move(done)](Result<GrantToken> token) mutable {
        if (alive.expired()) return;
        held_[index].pending.reset();
        if (!token) return done(std::move(token).error());
        authorize(index, reason, std::move(*token), std::move(done));
      });
}

void GrantKeeper::authorize(std::size_t index, Reason reason, GrantToken token, base::OneShot<void> done) {
  wire::Authorize request{token.token};
  remote_.call<wire::Authorize>({}, std::move(request), {}, {kAuthorizeTimeout},
                                [this, index, reason, token = std::move(token), alive = std::weak_ptr(alive_),
                                 done = std::move(done)](Result<Answer<wire::EmptyReply>> answer) mutable {
                                  if (alive.expired()) return;
                                  // A cached one that the agent does not take: another, once.
                                  if (!answer && answer.error().code == Errc::unauthorized && reason != Reason::refused)
                                    return renew(index, Reason::refused, std::move(token.token), std::move(done));
                                  if (!answer) return done(std::move(answer).error());
                                  held_[index].token = std::move(token);
                                  done(Result<void>());
                                });
}

void GrantKeeper::schedule(std::size_t index, base::Duration after) {
  held_[index].timer = loop_.schedule(after, [this, index] {
    held_[index].timer = {};
    wait_for_end(index);
  });
}

/// Until it is time to renew; at once where it is.
void GrantKeeper::wait_for_end(std::size_t index) {
  const GrantToken& token = held_[index].token;
  if (!token.expires_at) return;
  const std::uint64_t margin = renewal_margin(token.fetched_at, *token.expires_at);
  const std::uint64_t now = static_cast<std::uint64_t>(std::time(nullptr));
  if (token.expires_at->seconds <= now + margin) return due(index);
  schedule(index, std::min<base::Duration>(kLook, std::chrono::seconds(token.expires_at->seconds - now - margin)));
}

void GrantKeeper::due(std::size_t index) {
  std::string stale = held_[index].token.token;
  renew(index, Reason::expired, std::move(stale), [this, index, alive = std::weak_ptr(alive_)](Result<void> renewed) {
    if (alive.expired()) return;
    Held& held = held_[index];
    const std::string kind(grant_kind_name(held.kind));
    if (renewed) {
      held.retry = {};
      base::log_info("grant-refreshed: " + kind);
      // Posted by a timer also where it is due again: a source of grants that are over at once must not fill the loop.
      return schedule(index, kFirstRetry);
    }
    held.retry = std::clamp(2 * held.retry, kFirstRetry, kLastRetry);
    base::log_warning("the " + kind + " grant was not renewed, and will be tried again: " + renewed.error().message());
    schedule(index, held.retry);
  });
}

}  // namespace sandbar::client
