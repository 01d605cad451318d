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

/// The first frame each way, the client's first. Capabilities that the receiver does not know are ignored; one it
/// needs and does not find makes it close with a reason.
struct Hello {
  std::string software;  ///< "sandbar 0.1.0", for people
  std::vector<std::string> capabilities;
  Limits limits;
  // The client's.
  std::string journal;  ///< persistent id of the client's journal, empty for one that changes no files
  // The agent's.
  std::string agent;        ///< 128 random bits in hex: this agent's state folder, or this start where it has none
  std::uint64_t epoch = 0;  ///< counts the agent's starts; change numbers are comparable within one only
  std::string root;         ///< the served directory, as the sandbox names it
  std::uint32_t uid = 0;    ///< the agent's identity: what `idmap=user` maps the mounting user to
  std::uint32_t gid = 0;
  MutationNumber last_mutation;  ///< the journal's last finished mutation that the agent knows
  bool operator==(const Hello&) const = default;
};

constexpr const char* kCapabilityFilesPosix = "files.posix.1";
constexpr const char* kCapabilityProcess = "process.1";
constexpr const char* kCapabilityAuthorize = "authorize.1";

/// Why a side closes the connection; the last frame it sends.
struct Goodbye {
  std::string code;  ///< errc_name
  std::string message;
  bool operator==(const Goodbye&) const = default;
};

}  // namespace sandbar::wire
