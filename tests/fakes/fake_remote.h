// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/remote_fs.h"
#include "fakes/fake_tree.h"
#include "wire/dirents.h"
#include "wire/limits.h"

namespace sandbar::fakes {

/// A sandbox's files without a sandbox: answers from a FakeTree, under the ids that the client chose, through the
/// loop. A test can hold requests or answers and let them go in any order, fail them, cut the connection, act as the
/// other side on the tree, and see what was asked and which ids are bound. Permissions are not checked.
class FakeRemote final : public client::RemoteFs {
 public:
  explicit FakeRemote(base::Loop& loop) : loop_(loop) {
    hello_.software = "fake";
    hello_.limits = {wire::kMaxBody, wire::kMaxRequests, wire::kRequestWindow, wire::kMaxChannels,
                     wire::kChannelWindow};
    hello_.root = "/fake";
  }

  enum class Hold {
    none,
    answers,   ///< requests take effect at once, their answers wait
    requests,  ///< requests take effect when they are let go
  };

  FakeTree tree;
  Hold hold = Hold::none;
  std::size_t entries_per_page = 0;  ///< not 0: a page never holds more
  std::map<std::string, std::size_t> counts;
  std::vector<std::pair<std::string, wire::RequestContext>> asked;  ///< every request, in order
  std::size_t unknown_ids = 0;       ///< requests that named an id which is not bound (other than Release and Close)
  std::size_t unknown_releases = 0;  ///< ids in Release and Close that were not bound
  std::size_t bound_twice = 0;       ///< ids bound again: they are never reused
  std::size_t largest_release = 0;   ///< ids in one Release

  std::map<std::string, bool> vanishing;  ///< names that a listing gives without attributes
  base::Bytes link_inside;                ///< what every ReadLink says about where its target leads

  wire::Hello& hello() { return hello_; }

  [[nodiscard]] std::size_t held() const { return held_.size(); }
  [[nodiscard]] std::string held_name(std::size_t index) const { return name(held_.at(index).request); }
  /// Lets one held request or answer go.
  void let_go(std::size_t index) {
    Call call = std::move(held_.at(index));
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!call.answer) call.answer = perform(call);
    if (call.answer) post(std::move(call));
  }
  void let_all_go() {
    while (!held_.empty()) let_go(0);
  }
  /// The next request of this name fails with `error`, without effect.
  void fail_next(const std::string& name, Error error) { failures_.emplace(name, std::move(error)); }
  /// The next request of this name takes effect, and is answered by `answer`.
  void answer_next(const std::string& name, AnyAnswer answer) { forged_.emplace(name, std::move(answer)); }
  /// Cuts the connection: what is unanswered fails, and all that comes.
  void disconnect() {
    disconnected_ = true;
    for (auto& [id, done] : waiting_) fail(std::exchange(done, {}), Errc::disconnected);
    waiting_.clear();
    held_.clear();
    lock_waits_.clear();
  }
  /// From now on the agent says ESTALE for this object id.
  void make_stale(wire::ObjectId object) { objects_[object] = nullptr; }

  [[nodiscard]] std::size_t total() const {
    std::size_t sum = 0;
    for (const auto& [name, count] : counts) sum += count;
    return sum;
  }
  /// Requests since the last take_counts() other than Release.
  std::size_t take_round_trips() {
    std::size_t sum = 0;
    for (const auto& [name, count] : counts)
      if (name != "release") sum += count;
    counts.clear();
    return sum;
  }
  [[nodiscard]] std::size_t bound_objects() const { return objects_.size(); }
  [[nodiscard]] std::size_t bound_handles() const { return handles_.size(); }
  [[nodiscard]] bool is_bound(wire::ObjectId object) const { return objects_.contains(object); }

  // --- client::RemoteFs ---

  client::CallId submit(wire::RequestContext context, wire::RequestBody request, base::Bytes body,
                        client::CallOptions options, base::OneShot<AnyAnswer> done) override {
    const client::CallId id(++last_call_);
    ++counts[name(request)];
    asked.emplace_back(name(request), context);
    if (disconnected_) {
      fail(std::move(done), Errc::disconnected);
      return id;
    }
    waiting_.emplace(id, std::move(done));
    if (options.timeout > base::Duration::zero())
      loop_.schedule(options.timeout, [this, id] { give_up(id, Errc::timeout); });
    Call call{id, std::move(context), std::move(request), std::move(body), std::nullopt};
    if (hold != Hold::requests) call.answer = perform(call);
    if (hold == Hold::requests || (hold == Hold::answers && call.answer))
      held_.push_back(std::move(call));
    else if (call.answer)
      post(std::move(call));
    return id;
  }
  void cancel(client::CallId call) override {
    std::erase_if(lock_waits_, [&](const Call& each) { return each.id == call; });
    loop_.post([this, call] { give_up(call, Errc::cancelled); });
  }
  [[nodiscard]] const wire::Hello& agent() const override { return hello_; }

 private:
  using Outcome = Result<AnyAnswer>;
  struct Call {
    client::CallId id;
    wire::RequestContext context;
    wire::RequestBody request;
    base::Bytes body;
    std::optional<Outcome> answer;
  };
  struct Handle {
    InodePtr inode;
    std::uint32_t flags = 0;
  };

  static std::string name(const wire::RequestBody& request) { return wire::request_name(request); }

  void fail(base::OneShot<AnyAnswer> done, Errc code) {
    loop_.post([done = std::move(done), code]() mutable { done(make_error(code, "ask the fake")); });
  }
  void give_up(client::CallId id, Errc code) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;
    auto done = std::move(found->second);
    waiting_.erase(found);
    done(make_error(code, "ask the fake"));
  }
  void post(Call call) {
    loop_.post([this, id = call.id, answer = std::move(*call.answer)]() mutable {
      const auto found = waiting_.find(id);
      if (found == waiting_.end()) return;  // given up meanwhile
      auto done = std::move(found->second);
      waiting_.erase(found);
      done(std::move(answer));
    });
  }

  /// None: the request waits (a lock).
  std::optional<Outcome> perform(Call& call) {
    if (const auto found = failures_.find(name(call.request)); found != failures_.end()) {
      Error error = found->second;
      failures_.erase(found);
      return Outcome(std::move(error));
    }
    body_.clear();
    context_ = &call.context;
    Outcome outcome = std::visit([&](const auto& request) { return handle(request, call.body); }, call.request);
    if (outcome.ok()) outcome->body = std::exchange(body_, {});
    if (!outcome && outcome.error().code == Errc::os && outcome.error().os_errno == EAGAIN)
      if (const auto* lock = std::get_if<wire::Lock>(&call.request); lock != nullptr && lock->wait) {
        lock_waits_.push_back(std::move(call));
        return std::nullopt;
      }
    if (const auto found = forged_.find(name(call.request)); outcome.ok() && found != forged_.end()) {
      outcome = std::move(found->second);
      forged_.erase(found);
    }
    return outcome;
  }
  void retry_locks() {
    for (Call& call : std::exchange(lock_waits_, {}))
      if ((call.answer = perform(call))) post(std::move(call));
  }

  // --- Answers ---

  static Outcome error(int number) { return os_error(number, "fake"); }
  template <class Reply>
  static Outcome reply(Reply reply) {
    return AnyAnswer{wire::ReplyBody(std::move(reply)), {}, {}};
  }
  static Outcome result(int number) { return number == 0 ? reply(wire::EmptyReply{}) : error(number); }
  Outcome unknown() {
    ++unknown_ids;
    return make_error(Errc::invalid, "fake", "an id that is not bound");
  }
  static Outcome attributes(const InodePtr& inode) {
    wire::Attributes attributes = inode->attributes;
    attributes.has_xattrs = !inode->xattrs.empty();
    return reply(wire::AttributesReply{attributes});
  }

  void number(wire::ObjectId object, const InodePtr& inode) {
    if (!objects_.emplace(object, inode).second) ++bound_twice;
  }
  Outcome bind(wire::ObjectId object, const InodePtr& inode) {
    number(object, inode);
    return attributes(inode);
  }
  /// The object's inode, or the answer to give.
  bool find(wire::ObjectId object, InodePtr& inode, Outcome& failure) {
    const auto found = objects_.find(object);
    if (found == objects_.end())
      failure = unknown();
    else if (found->second == nullptr)
      failure = error(ESTALE);
    else
      inode = found->second;
    return inode != nullptr;
  }
  bool find(wire::HandleId handle, InodePtr& inode, Outcome& failure) {
    const auto found = handles_.find(handle);
    if (found == handles_.end())
      failure = unknown();
    else
      inode = found->second.inode;
    return inode != nullptr;
  }
  template <class Id, class F>
  Outcome with(Id id, F&& f) {
    InodePtr inode;
    Outcome failure = error(EIO);
    return find(id, inode, failure) ? f(inode) : failure;
  }
  template <class F>
  Outcome with_parent(wire::ObjectId id, F&& f) {
    return with(id, [&](const InodePtr& inode) { return inode->is_directory() ? f(inode) : error(ENOTDIR); });
  }
  InodePtr make(std::uint32_t mode, std::uint64_t rdev = 0) {
    const auto& caller = context_->caller;
    InodePtr inode = tree.make(mode, caller ? caller->uid : 0, caller ? caller->gid : 0);
    inode->attributes.rdev = rdev;
    return inode;
  }
  Outcome add(wire::ObjectId parent, const std::string& name, wire::ObjectId object, const InodePtr& inode) {
    return with_parent(parent, [&](const InodePtr& directory) {
      if (const int number = tree.add(directory, name, inode)) return error(number);
      return bind(object, inode);
    });
  }

  // --- Requests ---

  Outcome handle(const wire::Attach& r, base::Bytes&) {
    const InodePtr inode = tree.at(r.path);
    return inode ? bind(r.object, inode) : error(ENOENT);
  }
  Outcome handle(const wire::Lookup& r, base::Bytes&) {
    return with_parent(r.parent, [&](const InodePtr& directory) {
      const auto found = directory->children.find(r.name);
      return found == directory->children.end() ? error(ENOENT) : bind(r.object, found->second.inode);
    });
  }
  Outcome handle(const wire::Release& r, base::Bytes&) {
    largest_release = std::max(largest_release, r.objects.size());
    for (const wire::ObjectId object : r.objects)
      if (objects_.erase(object) == 0) ++unknown_releases;
    return result(0);
  }
  Outcome handle(const wire::GetAttributes& r, base::Bytes&) {
    if (r.handle) return with(r.handle, [](const InodePtr& inode) { return attributes(inode); });
    return with(r.object, [](const InodePtr& inode) { return attributes(inode); });
  }
  Outcome handle(const wire::SetAttributes& r, base::Bytes&) {
    const auto change = [&](const InodePtr& inode) {
      wire::Attributes& attributes = inode->attributes;
      if (r.size && !inode->is_file()) return error(inode->is_directory() ? EISDIR : EINVAL);
      if (r.mode) attributes.mode = (attributes.mode & S_IFMT) | *r.mode;
      if (r.uid) attributes.uid = *r.uid;
      if (r.gid) attributes.gid = *r.gid;
      if (r.size) tree.resize(*inode, *r.size);
      if (r.accessed) attributes.accessed = *r.accessed;
      if (r.modified) attributes.modified = *r.modified;
      if (r.modified_now) tree.touch(*inode);
      return FakeRemote::attributes(inode);
    };
    return r.handle ? with(r.handle, change) : with(r.object, change);
  }
  Outcome handle(const wire::ReadLink& r, base::Bytes&) {
    return with(r.object, [this](const InodePtr& i) {
      return S_ISLNK(i->attributes.mode) ? reply(wire::ReadLink::Reply{i->target, link_inside}) : error(EINVAL);
    });
  }
  Outcome handle(const wire::MakeDirectory& r, base::Bytes&) {
    return add(r.parent, r.name, r.object, make(S_IFDIR | r.mode));
  }
  Outcome handle(const wire::MakeNode& r, base::Bytes&) {
    return add(r.parent, r.name, r.object, make(r.mode, r.rdev));
  }
  Outcome handle(const wire::MakeSymlink& r, base::Bytes&) {
    const InodePtr link = make(S_IFLNK | 0777);
    link->target = r.target;
    link->attributes.size = r.target.size();
    return add(r.parent, r.name, r.object, link);
  }
  Outcome handle(const wire::MakeLink& r, base::Bytes&) {
    return with(r.object, [&](const InodePtr& inode) {
      return with_parent(r.new_parent, [&](const InodePtr& directory) {
        const int number = inode->is_directory() ? EPERM : tree.add(directory, r.new_name, inode);
        return number != 0 ? error(number) : attributes(inode);
      });
    });
  }
  Outcome handle(const wire::Unlink& r, base::Bytes&) {
    return with_parent(r.parent, [&](const InodePtr& at) { return result(tree.remove(at, r.name, false)); });
  }
  Outcome handle(const wire::RemoveDirectory& r, base::Bytes&) {
    return with_parent(r.parent, [&](const InodePtr& at) { return result(tree.remove(at, r.name, true)); });
  }
  Outcome handle(const wire::Rename& r, base::Bytes&) {
    return with_parent(r.parent, [&](const InodePtr& from) {
      return with_parent(
          r.new_parent, [&](const InodePtr& to) { return result(tree.rename(from, r.name, to, r.new_name, r.flags)); });
    });
  }

  Outcome open(const InodePtr& inode, wire::HandleId handle, std::uint32_t flags) {
    if ((flags & O_DIRECTORY) != 0 && !inode->is_directory()) return error(ENOTDIR);
    if ((flags & O_ACCMODE) != O_RDONLY && inode->is_directory()) return error(EISDIR);
    if ((flags & O_TRUNC) != 0) tree.resize(*inode, 0);
    if (!handles_.emplace(handle, Handle{inode, flags}).second) ++bound_twice;
    return attributes(inode);
  }
  Outcome handle(const wire::Open& r, base::Bytes&) {
    return with(r.object, [&](const InodePtr& inode) { return open(inode, r.handle, r.flags); });
  }
  Outcome handle(const wire::Create& r, base::Bytes&) {
    return with_parent(r.parent, [&](const InodePtr& directory) {
      const auto found = directory->children.find(r.name);
      InodePtr inode;
      if (found != directory->children.end()) {
        if ((r.flags & O_EXCL) != 0) return error(EEXIST);
        inode = found->second.inode;
        if (!inode->is_file()) return error(inode->is_directory() ? EISDIR : ELOOP);
      } else {
        inode = make(S_IFREG | r.mode);
        if (const int number = tree.add(directory, r.name, inode)) return error(number);
      }
      number(r.object, inode);
      return open(inode, r.handle, r.flags);
    });
  }
  Outcome handle(const wire::Close& r, base::Bytes&) {
    if (handles_.erase(r.handle) == 0) ++unknown_releases;
    return result(0);
  }
  Outcome handle(const wire::Read& r, base::Bytes&) {
    return with(r.handle, [&](const InodePtr& inode) {
      if (r.offset < inode->data.size()) body_ = inode->data.substr(r.offset, r.size);
      return result(0);
    });
  }
  Outcome handle(const wire::Write& r, base::Bytes& body) {
    return with(r.handle, [&](const InodePtr& inode) {
      const std::uint64_t offset = r.append ? inode->data.size() : r.offset;
      if (inode->data.size() < offset + body.size()) inode->data.resize(offset + body.size());
      inode->data.replace(offset, body.size(), body);
      inode->attributes.size = inode->data.size();
      tree.touch(*inode);
      return reply(wire::Write::Reply{body.size(), offset});
    });
  }
  Outcome handle(const wire::Fsync& r, base::Bytes&) {
    return with(r.handle, [](const InodePtr&) { return result(0); });
  }

  Outcome handle(const wire::List& r, base::Bytes&) {
    return with(r.handle, [&](const InodePtr& directory) {
      fill_page(r, *directory, FakeTree::entries(directory, r.cookie));
      return result(0);
    });
  }
  void fill_page(const wire::List& r, const Inode& directory, std::vector<wire::DirEntry> all) {
    std::size_t entries = 0;
    for (wire::DirEntry& entry : all) {
      const bool with_attributes = r.attributes && entry.name != "." && entry.name != "..";
      const InodePtr inode = with_attributes ? directory.children.at(entry.name).inode : nullptr;
      if (with_attributes && !vanishing.contains(entry.name)) {
        entry.attributes = inode->attributes;
        entry.attributes->has_xattrs = !inode->xattrs.empty();
        entry.object_offset = static_cast<std::uint32_t>(entries);
      }
      if (entries > 0 && body_.size() + wire::dir_entry_size(entry) > r.max_bytes) return;
      if (entries_per_page != 0 && entries == entries_per_page) return;
      if (entry.attributes) number(wire::ObjectId(r.first_object.value + entry.object_offset), inode);
      wire::append_dir_entry(body_, entry);
      ++entries;
    }
  }

  Outcome handle(const wire::StatFs& r, base::Bytes&) {
    return with(r.object, [](const InodePtr&) {
      return reply(wire::StatFs::Reply{4096, 4096, 1000, 500, 400, 100, 50, 255});
    });
  }
  Outcome handle(const wire::GetXattr& r, base::Bytes&) {
    return with(r.object, [&](const InodePtr& inode) {
      const auto found = inode->xattrs.find(r.name);
      if (found == inode->xattrs.end()) return error(ENODATA);
      body_ = found->second;
      return result(0);
    });
  }
  Outcome handle(const wire::SetXattr& r, base::Bytes& body) {
    return with(r.object, [&](const InodePtr& inode) {
      const bool there = inode->xattrs.contains(r.name);
      if (r.flags == 1 && there) return error(EEXIST);
      if (r.flags == 2 && !there) return error(ENODATA);
      inode->xattrs[r.name] = body;
      return result(0);
    });
  }
  Outcome handle(const wire::ListXattr& r, base::Bytes&) {
    return with(r.object, [&](const InodePtr& inode) {
      for (const auto& [name, value] : inode->xattrs) body_.append(name).push_back('\0');
      return result(0);
    });
  }
  Outcome handle(const wire::RemoveXattr& r, base::Bytes&) {
    return with(r.object,
                [&](const InodePtr& inode) { return result(inode->xattrs.erase(r.name) == 0 ? ENODATA : 0); });
  }

  Outcome handle(const wire::Lock& r, base::Bytes&) {
    return with(r.handle, [&](const InodePtr& inode) {
      const FakeLock wanted{r.owner.value, r.kind, r.type, r.start, lock_end(r.start, r.length)};
      if (r.type != wire::LockType::unlock && lock_conflict(*inode, wanted) != nullptr) return error(EAGAIN);
      cut_locks(*inode, wanted);
      if (r.type != wire::LockType::unlock) inode->locks.push_back(wanted);
      // Behind this call: a waiter may go on now.
      if (r.type == wire::LockType::unlock) loop_.post([this] { retry_locks(); });
      return result(0);
    });
  }
  Outcome handle(const wire::TestLock& r, base::Bytes&) {
    return with(r.handle, [&](const InodePtr& inode) {
      const FakeLock wanted{r.owner.value, wire::LockKind::posix, r.type, r.start, lock_end(r.start, r.length)};
      const FakeLock* found = lock_conflict(*inode, wanted);
      if (found == nullptr) return reply(wire::TestLock::Reply{});
      return reply(wire::TestLock::Reply{found->type, found->start, found->end - found->start, 0});
    });
  }
  Outcome handle(const wire::Allocate& r, base::Bytes&) {
    return with(r.handle, [&](const InodePtr& inode) {
      if (r.mode != 0) return error(EOPNOTSUPP);
      if (r.offset + r.length > inode->data.size()) tree.resize(*inode, r.offset + r.length);
      return result(0);
    });
  }
  Outcome handle(const wire::Seek& r, base::Bytes&) {
    return with(r.handle, [&](const InodePtr& inode) {
      if (r.offset >= inode->data.size()) return error(ENXIO);
      return reply(wire::Seek::Reply{r.whence == SEEK_DATA ? r.offset : inode->data.size()});
    });
  }
  Outcome handle(const wire::CopyRange& r, base::Bytes&) {
    return with(r.from, [&](const InodePtr& from) {
      return with(r.to, [&](const InodePtr& to) {
        const std::string data =
            r.from_offset < from->data.size() ? from->data.substr(r.from_offset, r.length) : std::string();
        if (to->data.size() < r.to_offset + data.size()) tree.resize(*to, r.to_offset + data.size());
        to->data.replace(r.to_offset, data.size(), data);
        return reply(wire::CountReply{data.size()});
      });
    });
  }
  Outcome handle(const wire::Spawn&, base::Bytes&) { return make_error(Errc::unsupported, "fake"); }
  Outcome handle(const wire::Authorize&, base::Bytes&) { return make_error(Errc::unsupported, "fake"); }
  Outcome handle(const wire::WaitProcess&, base::Bytes&) { return make_error(Errc::unsupported, "fake"); }
  Outcome handle(const wire::SignalProcess&, base::Bytes&) { return make_error(Errc::unsupported, "fake"); }
  base::Loop& loop_;
  wire::Hello hello_;
  bool disconnected_ = false;
  std::uint64_t last_call_ = 0;
  std::map<client::CallId, base::OneShot<AnyAnswer>> waiting_;
  std::deque<Call> held_;
  std::vector<Call> lock_waits_;
  std::multimap<std::string, Error> failures_;
  std::multimap<std::string, AnyAnswer> forged_;
  std::map<wire::ObjectId, InodePtr> objects_;
  std::map<wire::HandleId, Handle> handles_;
  base::Bytes body_;                               // of the answer being made
  const wire::RequestContext* context_ = nullptr;  // of the request being performed
};

}  // namespace sandbar::fakes
