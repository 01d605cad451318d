// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/remote_fs.h"
#include "mux/session.h"

namespace sandbar::client {

/// RemoteFs over a mux session: encodes requests, numbers mutations, decodes replies. A CallId is the session's
/// RequestId. On the loop's thread; the session must outlive it.
class RemoteFiles final : public RemoteFs {
 public:
  /// `numbers_mutations`: the session's hello named a journal. Mutations then count on, in the order in which they are
  /// submitted, from the last one that the agent knows (1 for a new journal).
  RemoteFiles(base::Loop& loop, mux::Session& session, bool numbers_mutations);

  CallId submit(wire::RequestContext context, wire::RequestBody request, base::Bytes body, CallOptions options,
                base::OneShot<AnyAnswer> done) override;
  void cancel(CallId call) override;
  [[nodiscard]] const wire::Hello& agent() const override;

  void restart(mux::Session& session) { session_ = &session; }
  void give_up(const Error&) {}
  void locks_lost() {}

  /// The number that the last submitted mutation got; none before the first.
  [[nodiscard]] wire::MutationNumber last_mutation() const { return last_mutation_; }

 private:
  base::Loop& loop_;
  mux::Session* session_;
  const bool numbers_mutations_;
  wire::MutationNumber last_mutation_;
};

/// The typed form of a reply; Errc::protocol where its head does not decode.
Result<RemoteFs::AnyAnswer> decode_answer(mux::Message message);

}  // namespace sandbar::client
