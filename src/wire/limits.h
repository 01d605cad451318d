// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// Every bound of the protocol, in one place; each has a test at the bound. Both sides enforce those marked
/// "refused": exceeding one closes the connection with a reason. sandbox-mux.7 repeats them.
namespace sandbar::wire {

/// A frame's JSON head, bytes. Room for a path of 4,096 bytes in base64 twice, an argv and an environment.
constexpr std::size_t kMaxHead = 256 * 1024;
/// A frame's body fragment, bytes: the upper end of the range in which fragments adapt (refused above).
constexpr std::size_t kMaxFragment = 256 * 1024;
/// The lower end: the sender never cuts finer.
constexpr std::size_t kMinFragment = 16 * 1024;
/// A whole body of one request or reply, bytes: the largest read or write is 1 MiB (FUSE's max_write), and a page
/// of a listing is kept below it.
constexpr std::size_t kMaxBody = 1024 * 1024;
/// A WebSocket message: header, head and fragment.
constexpr std::size_t kMaxMessage = 24 + kMaxHead + kMaxFragment;
/// Unanswered requests of one side (refused above; the sender queues).
constexpr std::size_t kMaxRequests = 4096;
/// Bytes of unanswered requests' bodies of one side (refused above; the sender queues).
constexpr std::size_t kRequestWindow = 32 * 1024 * 1024;
/// Open channels of a session (refused above).
constexpr std::size_t kMaxChannels = 4096;
/// Bytes that may be on the way in one direction of a channel before its reader takes some.
constexpr std::size_t kChannelWindow = 1024 * 1024;
/// Nesting of arrays and objects in a head.
constexpr unsigned kMaxJsonDepth = 8;
/// Elements of one array in a head: object ids to release, groups, argv, environment.
constexpr std::size_t kMaxArray = 8192;
/// Fields of one object in a head, unknown ones included; the largest message has some 15.
constexpr std::size_t kMaxFields = 64;
/// Linux: NAME_MAX, PATH_MAX, XATTR_NAME_MAX, XATTR_SIZE_MAX, NGROUPS_MAX is 65536 but NFS and we stop earlier.
constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxPath = 4096;
constexpr std::size_t kMaxXattrName = 255;
constexpr std::size_t kMaxXattrValue = 64 * 1024;
constexpr std::size_t kMaxGroups = 1024;
/// Values in a head altogether: what bounds the memory that reading one takes. An argv and an environment fit.
constexpr std::size_t kMaxValues = 4 * kMaxArray;
/// Frames that are sent and not acknowledged, bytes, a direction of a session: a sender stops there, and with bulk
/// (what is not small) kUnacknowledgedReserve earlier, so that small requests go on. At 1 Gbit/s and 200 ms round trip
/// 25 MB are on their way.
constexpr std::size_t kMaxUnacknowledged = 32 * 1024 * 1024;
constexpr std::size_t kUnacknowledgedReserve = 2 * 1024 * 1024;
/// Short texts of a hello and a goodbye: software, capabilities, journal and agent ids, codes.
constexpr std::size_t kMaxLabel = 255;
/// A process' name as its client gives it.
constexpr std::size_t kMaxProcessId = 64;
/// A token in an authorize request; a grant's is never longer.
constexpr std::size_t kMaxToken = 4096;
/// An error's text.
constexpr std::size_t kMaxErrorText = 4096;

}  // namespace sandbar::wire
