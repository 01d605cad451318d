// SPDX-License-Identifier: Apache-2.0
#include "base/link_target.h"

#include <algorithm>

namespace sandbar::base {

std::vector<BytesView> components(BytesView path) {
  std::vector<BytesView> parts;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    const BytesView part = path.substr(0, end);
    if (!part.empty() && part != ".") parts.push_back(part);
    path.remove_prefix(end == BytesView::npos ? path.size() : end + 1);
  }
  return parts;
}

bool stays_below(BytesView target, std::size_t depth) {
  if (target.starts_with('/')) return false;
  const auto parts = components(target);
  const auto name = std::find_if(parts.begin(), parts.end(), [](BytesView part) { return part != ".."; });
  return static_cast<std::size_t>(name - parts.begin()) <= depth && std::find(name, parts.end(), "..") == parts.end();
}

bool wants_directory(BytesView target) {
  const BytesView last = target.substr(target.rfind('/') + 1);
  return last.empty() || last == "." || last == "..";
}

Bytes climb(std::size_t depth, BytesView path) {
  Bytes target;
  for (std::size_t i = 0; i < depth; ++i) target += "../";
  target += path;
  if (target.empty()) return ".";
  if (path.empty()) target.pop_back();
  return target;
}

Bytes confine(BytesView target, std::size_t depth) {
  const bool absolute = target.starts_with('/');
  std::size_t up = absolute ? depth : 0;
  std::vector<BytesView> names;
  for (const BytesView part : components(target)) {
    if (part != "..") {
      names.push_back(part);
    } else if (!names.empty()) {
      names.pop_back();
    } else {
      up = std::min(up + 1, depth);
    }
  }
  Bytes path;
  for (const BytesView name : names) (path += name) += '/';
  if (!path.empty() && !wants_directory(target)) path.pop_back();
  return climb(up, path);
}

}  // namespace sandbar::base
