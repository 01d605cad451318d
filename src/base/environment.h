// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace sandbar::base {

/// The environment of a child: ours, without SANDBOX_TOKEN (which is for us alone), and with what is added. Reads
/// environ(7): nobody may change it meanwhile.
class ChildEnvironment {
 public:
  /// `added`: "NAME=value"; one that is there already is replaced.
  explicit ChildEnvironment(std::vector<std::string> added = {});

  /// As posix_spawn(3) and execve(2) take it; good as long as this and as environ is not changed.
  [[nodiscard]] char* const* data() const { return pointers_.data(); }

 private:
  std::vector<std::string> added_;
  std::vector<char*> pointers_;
};

}  // namespace sandbar::base
