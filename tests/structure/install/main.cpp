// SPDX-License-Identifier: Apache-2.0
// What a user of the installed library writes; ../install.py compiles, links and runs it.
#include <sandbar/error.h>
#include <sandbar/result.h>
#include <sandbar/target.h>

#include <iostream>

int main() {
  const auto target = sandbar::Target::parse("ws://box:8080:/src");
  if (!target) {
    std::cerr << target.error().message() << '\n';
    return 1;
  }
  const bool refused = !sandbar::Target::parse("no such thing");
  std::cout << target->host << ' ' << target->port << ' ' << target->directory << ' ' << refused << '\n';
  return 0;
}
