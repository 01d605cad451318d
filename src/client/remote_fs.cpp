// SPDX-License-Identifier: Apache-2.0
#include "client/remote_fs.h"

namespace sandbar::client {
namespace {

/// O_TRUNC of x86-64: the protocol's flags are Linux's there, whatever this side is built for.
constexpr std::uint32_t kTruncate = 01000;

template <class T, class... Kinds>
constexpr bool kIsOneOf = (std::is_same_v<T, Kinds> || ...);

}  // namespace

bool is_mutation(const wire::RequestBody& request) {
  return std::visit(
      [](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, wire::Open>) {
          return (body.flags & kTruncate) != 0;
        } else {
          return kIsOneOf<Body, wire::SetAttributes, wire::MakeDirectory, wire::MakeNode, wire::MakeSymlink,
                          wire::MakeLink, wire::Unlink, wire::RemoveDirectory, wire::Rename, wire::Create, wire::Write,
                          wire::SetXattr, wire::RemoveXattr, wire::Allocate, wire::CopyRange>;
        }
      },
      request);
}

}  // namespace sandbar::client
