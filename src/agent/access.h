// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grant/grant.h"
#include "sandbar/result.h"
#include "wire/messages.h"

namespace sandbar::agent {

/// Grants that one session may hold; a refreshed one takes the place of the one before.
constexpr std::size_t kMaxSessionGrants = 64;

/// What a request needs a grant for.
enum class Need : std::uint8_t { nothing, files, shell };

struct Requirement {
  Need need = Need::nothing;
  /// It gives back what an earlier request took (release, close), so that it goes with an expired grant too: what was
  /// opened in time must not stay open in the agent because the grant could not be renewed.
  bool gives_back = false;
};
Requirement requirement_of(const wire::RequestBody& body);

/// Whom the agent itself runs as.
struct AgentIdentity {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

/// What one session may do: everything (the shared token, or no authentication), or what its grants say. All checks
/// answer Errc::unauthorized with the kind that is missing; an expired grant stops new requests only, since nothing
/// asks about those under way. A plain value, of the loop's thread.
class Access {
 public:
  static Access everything(std::string subject);
  /// A session that begins with `grant`.
  static Access of(grant::Grant grant);

  /// Whose session it is; sessions and processes of different subjects have nothing to do with each other. A grant's
  /// subject NAME is "grant/NAME", so that no grant can name another kind of subject.
  [[nodiscard]] const std::string& subject() const { return subject_; }
  [[nodiscard]] bool allows_everything() const { return everything_; }

  /// Adds a grant. Errc::unauthorized where it is another subject's, Errc::limit beyond kMaxSessionGrants.
  Result<void> add(grant::Grant grant, grant::UnixTime now);
  /// Adds what another one of the same subject may do; to one that may do everything that is nothing. Errors as above.
  Result<void> add(const Access& other, grant::UnixTime now);

  [[nodiscard]] Result<void> files(grant::UnixTime now) const;
  [[nodiscard]] Result<void> shell(grant::UnixTime now) const;
  [[nodiscard]] Result<void> port(std::uint16_t number, grant::UnixTime now) const;
  /// Whether a grant of `kind` that has not expired may act as `caller`; none: as the agent itself.
  [[nodiscard]] Result<void> identity(grant::Kind kind, const std::optional<wire::Caller>& caller,
                                      const AgentIdentity& self, grant::UnixTime now) const;
  /// All that `request` needs.
  [[nodiscard]] Result<void> check(const wire::Request& request, const AgentIdentity& self, grant::UnixTime now) const;

 private:
  [[nodiscard]] Result<void> kind(grant::Kind kind, std::uint16_t port, grant::UnixTime now) const;
  [[nodiscard]] std::string kinds() const;

  bool everything_ = false;
  std::string subject_;
  std::vector<grant::Grant> grants_;
};

}  // namespace sandbar::agent
