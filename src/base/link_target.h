// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"

/// Targets of symbolic links, as texts. Which of them can lead out of a tree that somebody else may change at any time
/// follows from their form alone: what a name in the middle leads to now says nothing about the next moment.
namespace sandbar::base {

/// The components of a path, without empty ones and ".". Views into `path`.
std::vector<BytesView> components(BytesView path);

/// True when resolving `target` in a directory `depth` levels below a tree's top cannot leave the tree, whatever the
/// names in it are at that moment: it is relative, and has ".." only in front of all names and at most `depth` times.
/// (The names can be links, too; each is read, and judged, when it is met.)
bool stays_below(BytesView target, std::size_t depth);

/// True for one that a directory has to end: "d/", "d/.", "..".
bool wants_directory(BytesView target);

/// The target that leads from `depth` levels below the top to `path` below the top, which has plain names only:
/// "../../path"; "." for the top itself at depth 0.
Bytes climb(std::size_t depth, BytesView path);

/// What can be said about a target without asking where its names lead: an absolute one as if the tree were all there
/// is, ".." taken with the name before it, and climbing only up to the top. stays_below() holds for the result; it can
/// be another place than the target's.
Bytes confine(BytesView target, std::size_t depth);

}  // namespace sandbar::base
