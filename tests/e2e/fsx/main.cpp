// SPDX-License-Identifier: Apache-2.0
// Random file operations, each checked: what a mount gets wrong, one of them finds. Run by fsx.py.
#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "tester.h"

namespace {

constexpr char kUsage[] =
    "usage: fsx DIR [--served DIR [--mutate] [--break-at N]] [--seed N] [--ops N] [--max-size BYTES] "
    "[--no-zero-range]\n"
    "  DIR is empty. --served: the same directory without the mount, compared too; --mutate: half of the operations\n"
    "  happen there. --break-at: changes a byte there behind operation N, which must be found.\n"
    "  The same seed and options make the same operations. Exit code: 0 all as expected, 1 a mismatch, 2 usage.\n";

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 0);
  if (*text == '\0' || *end != '\0') std::fputs(kUsage, stderr), std::exit(2);
  return value;
}

fsx::Options parse(int argc, char** argv) {
  static const option kOptions[] = {
      {"served", required_argument, nullptr, 's'},   {"mutate", no_argument, nullptr, 'm'},
      {"break-at", required_argument, nullptr, 'b'}, {"seed", required_argument, nullptr, 'r'},
      {"ops", required_argument, nullptr, 'n'},      {"max-size", required_argument, nullptr, 'l'},
      {"no-zero-range", no_argument, nullptr, 'z'},  {nullptr, 0, nullptr, 0}};
  fsx::Options options;
  bool good = true;
  for (int letter = 0; (letter = ::getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    if (letter == 's') options.served = optarg;
    if (letter == 'm') options.mutate = true;
    if (letter == 'b') options.break_at = number(optarg);
    if (letter == 'r') options.seed = number(optarg);
    if (letter == 'n') options.operations = number(optarg);
    if (letter == 'l') options.max_size = number(optarg);
    if (letter == 'z') options.zero_range = false;
    if (letter == '?') good = false;
  }
  if (optind + 1 == argc) options.tree = argv[optind];
  if ((options.mutate || options.break_at != 0) && options.served.empty()) good = false;
  if (!good || options.tree.empty() || options.max_size == 0) std::fputs(kUsage, stderr), std::exit(2);
  return options;
}

int run(fsx::Options options) {
  const auto seed = static_cast<unsigned long long>(options.seed);
  std::string history;
  std::uint64_t done = 0;
  try {
    fsx::Tester tester(std::move(options));
    try {
      tester.run();
      std::printf("fsx: seed %llu, all as expected: %s\n", seed, tester.summary().c_str());
      return 0;
    } catch (const fsx::Mismatch&) {
      history = tester.history();
      done = tester.done();
      throw;
    }
  } catch (const fsx::Mismatch& mismatch) {
    std::printf("fsx: seed %llu, behind %llu operations: MISMATCH: %s\nthe last operations:\n%s", seed,
                static_cast<unsigned long long>(done), mismatch.what(), history.c_str());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) { return run(parse(argc, argv)); }
