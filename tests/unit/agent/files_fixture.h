// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "agent/file_core.h"
#include "fakes/threaded_loop.h"
#include "wire/dirents.h"

namespace sandbar::agent {

/// A served directory in a temporary one, so that there is an outside to protect.
class TempTree {
 public:
  TempTree() {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-files-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    base_ = name;
    // Other users act in the tests, too.
    ::chmod(name.c_str(), 0755);
    std::filesystem::create_directory(base_ / "root");
    ::chmod(root().c_str(), 0777);
  }
  ~TempTree() {
    // Deep trees exceed remove_all's descriptors and paths; rm(1) knows how.
    const std::string command = "rm -rf -- '" + base_.string() + "'";
    if (std::system(command.c_str()) != 0) ADD_FAILURE() << "cannot remove " << base_;
  }
  TempTree(const TempTree&) = delete;
  TempTree& operator=(const TempTree&) = delete;

  [[nodiscard]] std::string root() const { return (base_ / "root").string(); }
  [[nodiscard]] std::string outside(const std::string& name) const { return (base_ / name).string(); }
  [[nodiscard]] std::string path(const std::string& name) const { return root() + "/" + name; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  [[nodiscard]] struct stat stat(const std::string& name) const {
    struct stat st {};
    EXPECT_EQ(0, ::lstat(path(name).c_str(), &st)) << name;
    return st;
  }
  [[nodiscard]] bool exists(const std::string& name) const {
    struct stat st {};
    return ::lstat(path(name).c_str(), &st) == 0;
  }

 private:
  std::filesystem::path base_;
};

/// One session's file service on a directory, and calls that wait for their answers.
class Service {
 public:
  explicit Service(const std::string& root, RootOptions options = {}, std::string journal = "journal",
                   std::shared_ptr<JournalStore> store = nullptr)
      : journals(loop, std::move(store)) {
    Result<std::unique_ptr<Root>> opened = Root::open(root, options);
    if (!opened) ADD_FAILURE() << opened.error().message(), std::abort();
    root_ = std::move(opened).value();
    pool_ = std::make_unique<WorkerPool>(4);
    core = std::make_shared<FileCore>(loop, *root_, *pool_, journals, std::move(journal));
  }
  ~Service() {
    core.reset();
    pool_.reset();
  }

  /// A call under way.
  struct Pending {
    FileCallId id;
    std::optional<Result<FileAnswer>> answer;
  };
  std::shared_ptr<Pending> send(wire::RequestBody body, wire::RequestContext context = {}, base::Bytes bytes = {}) {
    auto pending = std::make_shared<Pending>();
    pending->id = core->submit({std::move(context), std::move(body)}, std::move(bytes),
                               [pending](Result<FileAnswer> answer) { pending->answer = std::move(answer); });
    EXPECT_FALSE(pending->answer) << "answered inside the call";
    return pending;
  }
  Result<FileAnswer> wait(const std::shared_ptr<Pending>& pending) {
    if (!loop.run_until([&] { return pending->answer.has_value(); })) return make_error(Errc::timeout, "wait");
    return *pending->answer;
  }
  Result<FileAnswer> ask(wire::RequestBody body, wire::RequestContext context = {}, base::Bytes bytes = {}) {
    return wait(send(std::move(body), std::move(context), std::move(bytes)));
  }

  // With types: the reply, or a failed test.
  template <class R>
  typename R::Reply must(R request, base::Bytes bytes = {}, base::Bytes* body = nullptr) {
    return must_as(std::nullopt, std::move(request), std::move(bytes), body);
  }
  template <class R>
  typename R::Reply must_as(std::optional<wire::Caller> caller, R request, base::Bytes bytes = {},
                            base::Bytes* body = nullptr) {
    wire::RequestContext context;
    context.caller = std::move(caller);
    Result<FileAnswer> answer = ask(wire::RequestBody(std::move(request)), context, std::move(bytes));
    if (!answer) {
      ADD_FAILURE() << answer.error().message();
      return {};
    }
    if (body != nullptr) *body = std::move(answer->body);
    auto* reply = std::get_if<typename R::Reply>(&answer->reply.body);
    if (reply == nullptr) {
      ADD_FAILURE() << "a reply of another kind";
      return {};
    }
    return *reply;
  }
  /// The errno of a request; 0 where it succeeds, -1 for an error of another kind.
  int error_of(wire::RequestBody body, std::optional<wire::Caller> caller = {}, base::Bytes bytes = {}) {
    wire::RequestContext context;
    context.caller = std::move(caller);
    const Result<FileAnswer> answer = ask(std::move(body), context, std::move(bytes));
    if (answer) return 0;
    return answer.error().code == Errc::os ? answer.error().os_errno : -1;
  }

  // Short forms.
  wire::ObjectId new_object() { return wire::ObjectId(++last_object_); }
  wire::HandleId new_handle() { return wire::HandleId(++last_handle_); }
  wire::ObjectId attach(const std::string& path = "/") {
    const wire::ObjectId id = new_object();
    must(wire::Attach{id, path});
    return id;
  }
  wire::ObjectId lookup(wire::ObjectId parent, const std::string& name) {
    const wire::ObjectId id = new_object();
    must(wire::Lookup{parent, name, id});
    return id;
  }
  wire::HandleId open(wire::ObjectId object, std::uint32_t flags = O_RDONLY) {
    const wire::HandleId id = new_handle();
    must(wire::Open{object, id, flags});
    return id;
  }
  std::pair<wire::ObjectId, wire::HandleId> create(wire::ObjectId parent, const std::string& name,
                                                   std::uint32_t mode = 0644, std::uint32_t flags = O_RDWR) {
    const std::pair ids(new_object(), new_handle());
    must(wire::Create{parent, name, mode, flags, ids.first, ids.second});
    return ids;
  }
  std::string read(wire::HandleId handle, std::uint64_t offset = 0, std::uint32_t size = 65536) {
    base::Bytes body;
    must(wire::Read{handle, offset, size}, {}, &body);
    return body;
  }
  std::vector<wire::DirEntry> list(wire::HandleId handle, std::uint64_t cookie = 0, std::uint32_t max = 65536,
                                   wire::ObjectId first = {}) {
    base::Bytes body;
    must(wire::List{handle, cookie, max, static_cast<bool>(first), first}, {}, &body);
    Result<std::vector<wire::DirEntry>> entries = wire::decode_dir_entries(body);
    if (!entries) ADD_FAILURE() << entries.error().message();
    return entries ? *entries : std::vector<wire::DirEntry>{};
  }

  fakes::ThreadedLoop loop;
  Journals journals;

 private:
  std::unique_ptr<Root> root_;
  std::unique_ptr<WorkerPool> pool_;
  std::uint64_t last_object_ = 0;
  std::uint64_t last_handle_ = 0;

 public:
  Root& root() { return *root_; }
  WorkerPool& pool() { return *pool_; }
  std::shared_ptr<FileCore> core;
};

inline wire::RequestContext mutation(std::uint64_t number) {
  wire::RequestContext context;
  context.mutation = wire::MutationNumber(number);
  return context;
}

class FilesTest : public testing::Test {
 protected:
  TempTree tree;
  Service service{tree.root()};
};

}  // namespace sandbar::agent
