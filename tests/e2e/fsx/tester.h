// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "random.h"

/// Random operations on one tree of files, each compared with what is expected by then.
namespace fsx {

struct Options {
  std::string tree;        ///< the directory to work in: the mount
  std::string served;      ///< the same directory as the sandbox has it; empty: there is none
  bool mutate = false;     ///< half of the operations happen in `served`
  bool zero_range = true;  ///< the file system below knows FALLOC_FL_ZERO_RANGE
  std::uint64_t seed = 0;
  std::uint64_t operations = 10'000;
  std::uint64_t max_size = 256 * 1024;  ///< of one file, bytes
  std::uint64_t break_at = 0;  ///< behind this operation a byte in `served` is changed: must be found. 0: never
};

/// What was found is not what was expected.
class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file as it should be, under any number of names.
struct File {
  std::uint64_t id = 0;
  std::string data;
  nlink_t links = 0;
  /// Something was written through a mapping of the mount and may be nowhere but in the kernel's pages.
  bool unsynced = false;
};
using FilePtr = std::shared_ptr<File>;

enum class Side { mount, served };

/// An open file, with a mapping of its first max_size bytes once one was needed.
struct Handle {
  int fd = -1;
  int flags = 0;
  Side side = Side::mount;
  FilePtr file;
  char* view = nullptr;
};

class Tester {
 public:
  /// Makes its directories; `tree` should be empty. Throws Mismatch.
  explicit Tester(Options options);
  ~Tester();
  Tester(const Tester&) = delete;
  Tester& operator=(const Tester&) = delete;

  /// All operations, then a look at everything from both sides. Throws Mismatch.
  void run();
  /// The last operations, one a line.
  [[nodiscard]] std::string history() const;
  /// How often each kind of operation was done.
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] std::uint64_t done() const { return done_; }

 private:
  struct Kind {
    const char* name;
    unsigned weight;
    bool (Tester::*perform)();  ///< false: there was nothing to do it on
  };
  static const std::vector<Kind> kKinds;

  /// A part of a file.
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
    [[nodiscard]] std::uint64_t end() const { return begin + length; }
  };

  // Operations on names (names.cpp).
  bool create();
  bool open_again();
  bool close_one();
  bool rename();
  bool exchange_directories();
  bool link();
  bool unlink();
  bool truncate_by_name();
  bool stat_by_name();

  // Operations on open files (data.cpp).
  bool read();
  bool write();
  bool write_past_end();
  bool mapped_read();
  bool mapped_write();
  bool truncate();
  bool allocate();
  bool punch();
  bool zero();
  bool copy_range();
  bool seek();
  bool sync();
  bool stat_open();

  // Choices.
  Side any_side();
  std::string any_name();          ///< used or not
  std::string any_used_name();     ///< empty when there is none
  Handle* any_handle(int access);  ///< O_RDONLY: one to read; O_WRONLY: one to write; O_RDWR: one for both
  Range any_range(std::uint64_t limit);

  // The state as it should be.
  void store(File& file, std::uint64_t offset, const std::string& data);
  static void resize(File& file, std::uint64_t size) { file.data.resize(size, '\0'); }
  void set_name(const std::string& name, FilePtr file);
  void drop_name(const std::string& name);

  // The real one.
  [[nodiscard]] std::string path(Side side, const std::string& name) const;
  void add_handle(int fd, int flags, Side side, FilePtr file);
  void close_handle(std::size_t index);
  char* view_of(Handle& handle);  ///< null when this file cannot be mapped
  void flush(Handle& handle);
  void break_something();

  // Comparisons; all throw Mismatch.
  void expect(bool good, const std::string& what) const;
  void expect_ok(long result, const char* call) const;  ///< right behind the call: reads errno
  void expect_errno(long result, int wanted, const char* call) const;
  void expect_data(const File& file, Range range, const std::string& got, const std::string& where) const;
  void expect_stat(const File& file, const struct stat& found, const std::string& where) const;
  void expect_zeros(const File& file, std::uint64_t begin, std::uint64_t end) const;
  void check_handle(const Handle& handle);
  void check_file(Side side, const std::string& name, const File& file);
  void check_listing(Side side);
  void check_everything();

  void say(const char* format, ...) __attribute__((format(printf, 2, 3)));
  [[nodiscard]] std::string describe(const Handle& handle) const;

  Options options_;
  Random random_;
  std::map<std::string, FilePtr> names_;  ///< "directory/name"
  std::vector<Handle> handles_;
  std::deque<std::string> history_;
  std::map<std::string, std::uint64_t> counts_;
  std::uint64_t done_ = 0;
  std::uint64_t last_file_ = 0;
};

}  // namespace fsx
