// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/root.h"
#include "base/bytes.h"

namespace sandbar::agent {

/// Where the symlink target `target`, met in `directory`, leads, as a path below the directory `top`: plain names, with
/// all links on the way resolved as a process in the sandbox would, but not the last name; a final slash where the
/// target has one. "/" is `top` itself. What does not exist (any more) keeps its names. Empty when it is outside of
/// `top`, or not to be told.
///
/// An absolute target begins at the agent's root, below which the root's own path in the sandbox is taken off ("/srv/x"
/// is "/x" for an agent of /srv). ".." in the root is the root. All of it is a picture of a tree that can change: the
/// client trusts the form, never the content. As the calling thread's identity; any thread.
base::Bytes path_below(const Root& root, int top, int directory, base::BytesView target);

}  // namespace sandbar::agent
