// SPDX-License-Identifier: Apache-2.0
#include "client/grant_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/synchronized.h"
#include "client/grant_cache.h"
#include "client/grant_command.h"
#include "client/grant_worker.h"
#include "client/token.h"

namespace sandbar::client {
namespace {

using Reason = GrantWant::Reason;

std::uint64_t wall_clock() { return static_cast<std::uint64_t>(std::max<std::time_t>(std::time(nullptr), 0)); }

Error none_other(std::string why) { return make_error(Errc::unauthorized, "", std::move(why)); }

// --- File and environment --------------------------------------------------------------------------------------

class FixedSource final : public GrantSource {
 public:
  FixedSource(std::string token, std::string file) : state_(std::make_shared<State>()) {
    state_->token.with([&](std::string& known) { known = std::move(token); });
    state_->file = std::move(file);
  }

  std::unique_ptr<PendingGrant> get(base::Loop& loop, GrantWant want, base::OneShot<GrantToken> done) override {
    // Also at first on a thread: it is one path, and a reconnect asks as often as a connect.
    return workers_.run(
        loop, [state = state_, want = std::move(want)](const Cancellation&) { return state->get(want); },
        std::move(done));
  }

 private:
  struct State {
    base::Synchronized<std::string> token;
    std::string file;

    Result<GrantToken> get(const GrantWant& want) {
      const std::string known = token.with([](const std::string& t) { return t; });
      if (want.reason == Reason::first || known != want.stale) return GrantToken{known, {}, {}};
      if (file.empty()) return none_other("there is no other token than the one that was refused");
      struct stat attributes {};
      if (::stat(file.c_str(), &attributes) == 0 && !S_ISREG(attributes.st_mode))
        return none_other("the token file is no file that could be read again");
      auto read = read_token_file(file);
      if (!read) return std::move(read).error();
      if (*read == want.stale) return none_other("the token file still holds the token that was refused");
      token.with([&](std::string& t) { t = *read; });
      return GrantToken{std::move(*read), {}, {}};
    }
  };

  std::shared_ptr<State> state_;
  GrantWorkers workers_;
};

// --- Command ---------------------------------------------------------------------------------------------------

/// Whether a token that `url` is for may be shown to `target`.
Result<void> check_origin(const std::string& url, const Target& target) {
  if (url.empty() || target.kind != Target::Kind::websocket) return {};
  auto for_whom = Target::parse(url);
  if (!for_whom) return make_error(Errc::disconnected, "", "the url that it names is none: " + for_whom.error().detail);
  Target asked = target;
  for (Target* one : {&asked, &*for_whom}) {
    one->http_path = "/";
    one->directory = "/";
  }
  if (asked.address() == for_whom->address()) return {};
  return make_error(Errc::disconnected, "",
                    "its token is for " + for_whom->address() + ", and is not shown to " + asked.address());
}

class CommandSource final : public GrantSource {
 public:
  explicit CommandSource(GrantCommandOptions options) : state_(std::make_shared<State>(std::move(options))) {}

  std::unique_ptr<PendingGrant> get(base::Loop& loop, GrantWant want, base::OneShot<GrantToken> done) override {
    return workers_.run(
        loop,
        [state = state_, want = std::move(want)](const Cancellation& cancellation) {
          return state->get(want, cancellation);
        },
        std::move(done));
  }

 private:
  struct State {
    explicit State(GrantCommandOptions given) : options(std::move(given)) {}

    GrantCommandOptions options;
    std::once_flag opened;
    std::optional<GrantCache> cache;  ///< set once; none: the folder cannot be trusted

    Result<GrantToken> get(const GrantWant& want, const Cancellation& cancellation);
    Result<wire::GrantAnswer> answer(const GrantWant& want, const Cancellation& cancellation);
    Result<wire::GrantAnswer> fetch(const GrantWant& want, const Cancellation& cancellation);
    void open_cache();
    [[nodiscard]] std::chrono::milliseconds time_limit() const {
      return std::chrono::ceil<std::chrono::milliseconds>(options.time_limit);
    }
  };

  std::shared_ptr<State> state_;
  GrantWorkers workers_;
};

bool is_good(const wire::GrantAnswer& answer, const GrantWant& want, std::uint64_t margin) {
  return answer.token != want.stale && answer.expires_at.seconds > wall_clock() + margin;
}

bool is_fresh(const std::optional<wire::GrantAnswer>& answer, const GrantWant& want) {
  return answer && is_good(*answer, want, renewal_margin(answer->fetched_at, answer->expires_at));
}

Result<GrantToken> CommandSource::State::get(const GrantWant& want, const Cancellation& cancellation) {
  auto found = answer(want, cancellation);
  if (!found) return std::move(found).error();
  // One that the cache gave, too: the file's name is of the target, but what is in it decides.
  if (auto right = check_origin(found->url, options.target); !right)
    return make_error(right.error().code, "use what the grant command printed", right.error().detail);
  return GrantToken{std::move(found->token), found->expires_at, found->fetched_at};
}

Result<wire::GrantAnswer> CommandSource::State::answer(const GrantWant& want, const Cancellation& cancellation) {
  std::call_once(opened, [this] { open_cache(); });
  if (!cache) return fetch(want, cancellation);
  const std::string key = GrantCache::key_of(options.command, want.kind, want.port, options.target.address());
  if (auto known = cache->read(key); is_fresh(known, want)) return std::move(*known);
  // Whoever has the lock may have its whole time.
  auto lock = cache->lock(key, cancellation, 2 * time_limit());
  if (!lock) return std::move(lock).error();
  auto known = cache->read(key);
  if (is_fresh(known, want)) return std::move(*known);
  if (const auto why = lock->failed_meanwhile()) return make_error(Errc::disconnected, "", *why);
  auto fetched = fetch(want, cancellation);
  if (fetched) {
    if (auto kept = cache->write(key, *fetched); !kept) base::log_warning(kept.error().message());
    return fetched;
  }
  if (fetched.error().code != Errc::cancelled) lock->failed(fetched.error().message());
  // What was to be renewed early is good for a while yet.
  if (known && is_good(*known, want, 0)) return std::move(*known);
  return fetched;
}

Result<wire::GrantAnswer> CommandSource::State::fetch(const GrantWant& want, const Cancellation& cancellation) {
  auto answer =
      run_grant_command({options.command, want.kind, want.port, options.target.address(), time_limit()}, cancellation);
  if (!answer) return answer;
  constexpr const char* kOperation = "use what the grant command printed";
  answer->fetched_at.seconds = wall_clock();
  if (!is_token(answer->token))
    return make_error(Errc::disconnected, kOperation, "its token has characters that no token has, or is empty");
  if (answer->token == want.stale) return none_other("the grant command printed the token that was refused again");
  if (answer->expires_at <= answer->fetched_at)
    return make_error(Errc::disconnected, kOperation,
                      "its token has expired already: is the clock of this machine right?");
  return answer;
}

void CommandSource::State::open_cache() {
  auto opened_cache = GrantCache::open();
  if (opened_cache)
    cache.emplace(std::move(*opened_cache));
  else
    base::log_warning(opened_cache.error().message() + "; the grant command is run each time instead");
}

}  // namespace

std::string_view grant_kind_name(GrantKind kind) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"files", "shell", "port"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t renewal_margin(wire::Instant fetched_at, wire::Instant expires_at) noexcept {
  constexpr std::uint64_t kMost = 60;
  const std::uint64_t life = expires_at > fetched_at ? expires_at.seconds - fetched_at.seconds : 0;
  return std::clamp<std::uint64_t>(life / 5, 1, kMost);
}

std::shared_ptr<GrantSource> make_fixed_source(std::string token, std::string file) {
  return std::make_shared<FixedSource>(std::move(token), std::move(file));
}

std::shared_ptr<GrantSource> make_command_source(GrantCommandOptions options) {
  return std::make_shared<CommandSource>(std::move(options));
}

}  // namespace sandbar::client
