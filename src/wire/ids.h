// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/strong_id.h"

namespace sandbar::wire {

struct ObjectTag;
struct HandleTag;
struct MutationTag;
struct ChangeTag;
struct ChannelTag;
struct RequestTag;
struct LockOwnerTag;

/// A file system object, numbered by the client (as 9P's fids): the request that finds or makes it names the id that
/// later requests use, so that they can be sent before it is answered. Never reused within a session. 0 is none.
using ObjectId = base::StrongId<ObjectTag>;
/// An open file or directory, numbered by the client in a space of its own. Never reused within a session.
using HandleId = base::StrongId<HandleTag>;
/// A journal's mutations count from 1 without a gap; the agent executes them in this order. 0: not a mutation.
using MutationNumber = base::StrongId<MutationTag>;
/// Agent-wide count of changes to the served files within an epoch. 0: none counted.
using ChangeNumber = base::StrongId<ChangeTag>;
/// A byte stream within a session; odd when the client opened it, even when the agent did.
using ChannelId = base::StrongId<ChannelTag>;
/// A request within a session, counted from 1 by the side that sends it.
using RequestId = base::StrongId<RequestTag>;
/// Whoever holds a lock, as the client's kernel numbers owners.
using LockOwner = base::StrongId<LockOwnerTag>;

}  // namespace sandbar::wire
