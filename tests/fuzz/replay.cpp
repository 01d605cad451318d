// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "fuzz.h"

/// A fuzzer's main in builds without libFuzzer: replay DIR runs each file of its corpus, each of their beginnings, and
/// each with one byte changed in a few ways. The same inputs each time.
namespace {

/// From memory of exactly that size, so that a sanitizer sees a read beyond.
void run(const std::string& text) {
  const auto copy = std::make_unique<std::uint8_t[]>(text.size());
  std::copy(text.begin(), text.end(), copy.get());
  LLVMFuzzerTestOneInput(copy.get(), text.size());
}

std::size_t run_around(const std::string& text) {
  run(text);
  std::size_t runs = 1;
  constexpr std::size_t kMost = 1024;  // of large files only the first bytes: the rest is more of the same
  for (std::size_t at = 0; at < text.size() && at < kMost; ++at) {
    run(text.substr(0, at));
    for (const int flip : {0x01, 0x02, 0x20, 0x80, 0xFF}) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      run(changed);
    }
    runs += 6;
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]);
    return 2;
  }
  std::size_t files = 0;
  std::size_t runs = 0;
  for (const auto& file : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream stream(file.path(), std::ios::binary);
    runs += run_around({std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
    ++files;
  }
  std::printf("%zu files, %zu inputs\n", files, runs);
  return files > 0 ? 0 : 1;  // a corpus that is not found must not pass
}
