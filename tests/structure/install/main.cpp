// SPDX-License-Identifier: Apache-2.0
// What a user of the installed library writes; ../install.py compiles, links and runs it.
#include <sandbar/client.h>

#include <iostream>

int main() {
  const auto target = sandbar::Target::parse("unix:/nowhere/agent.sock:/src");
  if (!target) {
    std::cerr << target.error().message() << '\n';
    return 1;
  }
  const auto client = sandbar::Client::connect(*target);
  std::cout << target->directory << ' ' << (client.ok() ? "connected" : sandbar::errc_name(client.error().code))
            << '\n';
  return 0;
}
