// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/ids.h"

/// How a session begins and ends; see messages.h.
namespace sandbar::wire {

/// Bounds that a side enforces on what it receives. 0 is never sent; see limits.h.
struct Limits {
  std::uint64_t max_body = 0;        ///< bytes of one request's or reply's body
  std::uint64_t max_requests = 0;    ///< unanswered requests
  std::uint64_t request_window = 0;  ///< bytes of unanswered requests' bodies
  std::uint64_t max_channels = 0;
  std::uint64_t channel_window = 0;  ///< bytes, a direction of a channel
  bool operator==(const Limits&) const = default;
};

/// The first frame each way on each connection, the client's first. Capabilities that the receiver does not know are
/// ignored; one it needs and does not find makes it close with a reason.
struct Hello {
  std::string software;  ///< "sandbar 0.1.0", for people
  std::vector<std::string> capabilities;
  Limits limits;
  // The client's.
  std::string journal;           ///< persistent id of the client's journal, empty for one that changes no files
  MutationNumber last_answered;  ///< the client will never send its mutations up to this number again
  // The agent's.
  std::string agent;        ///< 128 random bits in hex: this agent's state folder, or this start where it has none
  std::uint64_t epoch = 0;  ///< counts the agent's starts; change numbers are comparable within one only
  std::string root;         ///< the served directory, as the sandbox names it
  std::uint32_t uid = 0;    ///< the agent's identity: what `idmap=user` maps the mounting user to
  std::uint32_t gid = 0;
  MutationNumber last_mutation;  ///< the journal's last begun mutation that the agent knows
  bool journal_known = false;    ///< it has a record of the journal, in which nothing that was done can be missing
  // Resuming; see sandbox-mux.7, "Sessions and connections".
  std::string session;         ///< the agent's: what it calls this session; the client's: the one that it comes back to
  std::uint64_t fence = 0;     ///< the client's: higher than in any earlier hello for this session; 0 in the first
  std::uint64_t received = 0;  ///< the last frame's number that the sender has of the other
  std::uint64_t lease = 0;     ///< the agent's: seconds for which it keeps the session when the connection is lost
  bool locks_lost = false;     ///< the agent's: it gave the session's locks back while the connection was lost
  bool operator==(const Hello&) const = default;
};

constexpr const char* kCapabilityFilesPosix = "files.posix.1";
constexpr const char* kCapabilityProcess = "process.1";
constexpr const char* kCapabilityAuthorize = "authorize.1";
/// The client's: it comes back when its connection is lost, and wants its session kept for that.
constexpr const char* kCapabilityResume = "resume.1";

/// Why a side closes the connection; the last frame it sends.
struct Goodbye {
  std::string code;  ///< errc_name
  std::string message;
  bool operator==(const Goodbye&) const = default;
};

}  // namespace sandbar::wire
