// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sandbar::client {

/// A folder of the test's own, which is also where the grants of this user are kept ($XDG_RUNTIME_DIR).
class GrantsFolder : public ::testing::Test {
 protected:
  GrantsFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-grants.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    ::setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  }
  ~GrantsFolder() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] std::string contents(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    ::chmod(path(name).c_str(), 0600);
  }
  /// How often a command ran that writes a line each time.
  [[nodiscard]] std::size_t lines(const std::string& name) const {
    const std::string text = contents(name);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  /// Descriptors of this process that are open files of this name.
  static std::size_t open_descriptors_of(const std::string& name) {
    std::size_t count = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored))
      count += std::filesystem::read_symlink(entry.path(), ignored).filename() == name ? 1 : 0;
    return count;
  }

 private:
  std::string folder_;
};

}  // namespace sandbar::client
