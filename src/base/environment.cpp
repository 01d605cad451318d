// SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace sandbar::base {
namespace {

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

}  // namespace

ChildEnvironment::ChildEnvironment(std::vector<std::string> added) : added_(std::move(added)) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name = name_of(*entry);
    const bool replaced = std::any_of(added_.begin(), added_.end(), [&](const auto& a) { return name_of(a) == name; });
    if (name != "SANDBOX_TOKEN" && !replaced) pointers_.push_back(*entry);
  }
  for (std::string& entry : added_) pointers_.push_back(entry.data());
  pointers_.push_back(nullptr);
}

}  // namespace sandbar::base
