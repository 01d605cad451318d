// SPDX-License-Identifier: Apache-2.0
// Puts a file into a sandbox, runs a command there, shows what it says, and fetches a file that it made:
//
//   run_and_fetch TARGET        (the agent's token in SANDBOX_TOKEN)
#include <cstdlib>
#include <iostream>
#include <string>

#include "sandbar/client.h"

namespace {

int fail(const sandbar::Error& error) {
  std::cerr << "run_and_fetch: " << error.message() << '\n';
  return 1;
}

int run(const sandbar::Target& target) {
  const char* token = std::getenv("SANDBOX_TOKEN");
  auto client = sandbar::Client::connect(target, {.token = token != nullptr ? token : ""});
  if (!client) return fail(client.error());

  const sandbar::Files files = client->files();
  const std::string folder = target.directory == "/" ? "" : target.directory;
  if (auto written = files.write(folder + "/numbers.txt", "30\n4\n100\n"); !written) return fail(written.error());

  // The sink runs on the library's thread and must not block for long; standard error is thrown away here.
  auto process =
      client->spawn({.argv = {"sh", "-c", "sort -n numbers.txt | tee sorted.txt"},
                     .standard_output = [](const sandbar::OutputChunk& chunk) { std::cout << chunk.bytes(); }});
  if (!process) return fail(process.error());
  const auto status = process->wait();
  if (!status) return fail(status.error());
  std::cout << "exit code " << status->code << '\n';

  const auto sorted = files.read(folder + "/sorted.txt");
  if (!sorted) return fail(sorted.error());
  std::cout << "sorted.txt has " << sorted->size() << " bytes\n";
  return status->code == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: run_and_fetch TARGET\n";
    return 2;
  }
  const auto target = sandbar::Target::parse(argv[1]);
  return target ? run(*target) : fail(target.error());
}
