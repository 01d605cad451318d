// SPDX-License-Identifier: Apache-2.0
#include "client/resend.h"

#include <type_traits>
#include <variant>

#include "wire/request_names.h"

namespace sandbar::client {
namespace {

template <class T, class... Kinds>
constexpr bool kIsOneOf = (std::is_same_v<T, Kinds> || ...);

/// FALLOC_FL_COLLAPSE_RANGE and FALLOC_FL_INSERT_RANGE of Linux.
constexpr std::uint32_t kMovesBytes = 0x08 | 0x20;

constexpr ResendRule kAgain{Resend::again, Resend::again};
constexpr ResendRule kSettled{Resend::settled, Resend::settled};
constexpr ResendRule kUnknown{Resend::unknown, Resend::unknown};
/// Mutations whose second execution leaves what the first one has left; and the others.
constexpr ResendRule kAbsolute{Resend::by_number, Resend::again};
constexpr ResendRule kOnce{Resend::by_number, Resend::unknown};

// One for each request, and none for the others: a new one does not compile until it has its row.
constexpr ResendRule rule(const wire::Attach&) { return kAgain; }
constexpr ResendRule rule(const wire::Lookup&) { return kAgain; }
constexpr ResendRule rule(const wire::Restore&) { return kAgain; }
constexpr ResendRule rule(const wire::Release&) { return kSettled; }
constexpr ResendRule rule(const wire::GetAttributes&) { return kAgain; }
constexpr ResendRule rule(const wire::SetAttributes&) { return kAbsolute; }
constexpr ResendRule rule(const wire::ReadLink&) { return kAgain; }
constexpr ResendRule rule(const wire::MakeDirectory&) { return kOnce; }
constexpr ResendRule rule(const wire::MakeNode&) { return kOnce; }
constexpr ResendRule rule(const wire::MakeSymlink&) { return kOnce; }
constexpr ResendRule rule(const wire::MakeLink&) { return kOnce; }
constexpr ResendRule rule(const wire::Unlink&) { return kOnce; }
constexpr ResendRule rule(const wire::RemoveDirectory&) { return kOnce; }
constexpr ResendRule rule(const wire::Rename&) { return kOnce; }
constexpr ResendRule rule(const wire::Open& open) {
  return (open.flags & wire::kOpenTruncates) != 0 ? kAbsolute : kAgain;
}
// Without O_EXCL it could be repeated, if it were certain that what it made was not moved or removed meanwhile.
constexpr ResendRule rule(const wire::Create&) { return kOnce; }
constexpr ResendRule rule(const wire::Close&) { return kSettled; }
constexpr ResendRule rule(const wire::Read&) { return kAgain; }
constexpr ResendRule rule(const wire::Write& write) { return write.append ? kOnce : kAbsolute; }
// What was written and answered is in the page cache of the sandbox, which outlives its agent.
constexpr ResendRule rule(const wire::Fsync&) { return kAgain; }
constexpr ResendRule rule(const wire::List&) { return kAgain; }
constexpr ResendRule rule(const wire::StatFs&) { return kAgain; }
constexpr ResendRule rule(const wire::GetXattr&) { return kAgain; }
constexpr ResendRule rule(const wire::SetXattr& set) { return set.flags == 0 ? kAbsolute : kOnce; }
constexpr ResendRule rule(const wire::ListXattr&) { return kAgain; }
constexpr ResendRule rule(const wire::RemoveXattr&) { return kOnce; }
// A lock that was not granted is nobody's loss: nobody has relied on it. Nothing is held in a new session.
constexpr ResendRule rule(const wire::Lock& lock) { return lock.type == wire::LockType::unlock ? kSettled : kAgain; }
constexpr ResendRule rule(const wire::TestLock&) { return kAgain; }
constexpr ResendRule rule(const wire::Allocate& allocate) {
  return (allocate.mode & kMovesBytes) != 0 ? kOnce : kAbsolute;
}
constexpr ResendRule rule(const wire::Seek&) { return kAgain; }
// A later write to its source may have been executed: a second copy would not be the first one.
constexpr ResendRule rule(const wire::CopyRange&) { return kOnce; }
// Their streams went with the session.
constexpr ResendRule rule(const wire::Spawn&) { return kUnknown; }
constexpr ResendRule rule(const wire::WaitProcess&) { return kUnknown; }
constexpr ResendRule rule(const wire::Authorize&) { return kAgain; }
constexpr ResendRule rule(const wire::SignalProcess&) { return kUnknown; }

}  // namespace

ResendRule resend_rule(const wire::RequestBody& request) {
  return std::visit([](const auto& body) { return rule(body); }, request);
}

bool changes_names(const wire::RequestBody& request) {
  return std::visit(
      []<class Body>(const Body&) {
        return kIsOneOf<Body, wire::MakeDirectory, wire::MakeNode, wire::MakeSymlink, wire::MakeLink, wire::Unlink,
                        wire::RemoveDirectory, wire::Rename, wire::Create>;
      },
      request);
}

UsedIds used_ids(const wire::RequestBody& request) {
  const wire::RequestNames names = wire::names_of(request);
  return {names.objects, names.handles};
}

}  // namespace sandbar::client
