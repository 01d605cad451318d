// SPDX-License-Identifier: Apache-2.0
#include "sandbar/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "client/client_core.h"
#include "wire/dirents.h"
#include "wire/limits.h"

namespace sandbar {
namespace {

using client::ClientCore;
using Answers = ClientCore::Answers;
using Calls = std::vector<ClientCore::Call>;

/// Requests of one exchange while a file is read or written: at 20 ms there and back this is 400 MB/s.
constexpr std::size_t kPipelined = 8;
constexpr std::uint32_t kRenameNoReplace = 1;
constexpr std::uint32_t kPermissions = 07777;
constexpr std::uint32_t kNewFile = 0644;

FileType type_of(std::uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return FileType::regular;
    case S_IFDIR:
      return FileType::directory;
    case S_IFLNK:
      return FileType::symlink;
    case S_IFIFO:
      return FileType::fifo;
    case S_IFSOCK:
      return FileType::socket;
    case S_IFCHR:
      return FileType::character_device;
    case S_IFBLK:
      return FileType::block_device;
    default:
      return FileType::unknown;
  }
}

FileTime time_of(const wire::Time& time) { return {time.seconds, time.nanoseconds}; }

FileInfo info_of(const wire::Attributes& attributes) {
  FileInfo info;
  info.type = type_of(attributes.mode);
  info.permissions = attributes.mode & kPermissions;
  info.size = attributes.size;
  info.links = attributes.links;
  info.uid = attributes.uid;
  info.gid = attributes.gid;
  info.inode = attributes.inode;
  info.accessed = time_of(attributes.accessed);
  info.modified = time_of(attributes.modified);
  info.changed = time_of(attributes.changed);
  return info;
}

std::string operation_on(const char* verb, const std::string& path) {
  return std::string(verb) + " " + base::printable(path);
}

/// The agent names its own step; the caller wants to know which of its calls failed.
Error renamed(Error error, const std::string& operation) {
  error.operation = operation;
  if (error.code == Errc::os) error.detail.clear();
  return error;
}

Result<void> check_path(const std::string& path, const std::string& operation) {
  if (path.find('\0') != std::string::npos) return make_error(Errc::invalid, operation, "the path holds a zero byte");
  if (path.size() >= wire::kMaxPath) return make_error(Errc::invalid, operation, "the path is longer than 4095 bytes");
  return {};
}

/// A path as the directory that holds it and its name there.
struct Place {
  std::string parent;
  std::string name;
};

Result<Place> place_of(const std::string& path, const std::string& operation) {
  if (auto checked = check_path(path, operation); !checked) return std::move(checked).error();
  const std::size_t last = path.find_last_not_of('/');
  if (last == std::string::npos) return make_error(Errc::invalid, operation, "the root itself has no name");
  const std::size_t slash = path.find_last_of('/', last);
  const std::size_t start = slash == std::string::npos ? 0 : slash + 1;
  Place place{path.substr(0, start), path.substr(start, last + 1 - start)};
  if (place.parent.empty()) place.parent = "/";
  if (place.name == "." || place.name == "..")
    return make_error(Errc::invalid, operation, "a path that ends in . or .. has no name of its own");
  if (place.name.size() > wire::kMaxName) return os_error(ENAMETOOLONG, operation);
  return place;
}

/// The first answer that is an error: what later ones say is only its consequence.
Result<void> first_error(const Answers& answers, const std::string& operation) {
  for (const auto& answer : answers)
    if (!answer) return renamed(answer.error(), operation);
  return {};
}

Result<wire::Attributes> attributes_in(const Answers& answers, std::size_t index, const std::string& operation) {
  if (const auto error = first_error(answers, operation); !error) return error.error();
  const auto* reply = std::get_if<wire::AttributesReply>(&answers[index]->reply);
  if (reply == nullptr) return make_error(Errc::protocol, operation, "the agent sent another kind of reply");
  return reply->attributes;
}

/// Objects and handles of one operation; given back when it is over, without waiting.
class Scope {
 public:
  explicit Scope(ClientCore& core) : core_(core) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    Calls calls = closing();
    if (!calls.empty()) core_.send(std::move(calls));
  }

  wire::ObjectId object() {
    objects_.push_back(core_.new_object());
    return objects_.back();
  }
  /// A handle that an open or a create of this operation makes.
  wire::HandleId handle() {
    handles_.push_back(core_.new_handle());
    return handles_.back();
  }
  /// The caller closes it itself.
  void forget(wire::HandleId handle) { handles_.erase(std::find(handles_.begin(), handles_.end(), handle)); }

 private:
  Calls closing() {
    Calls calls;
    for (const wire::HandleId handle : handles_) calls.push_back({wire::Close{handle}, {}});
    if (!objects_.empty()) calls.push_back({wire::Release{objects_}, {}});
    return calls;
  }

  ClientCore& core_;
  std::vector<wire::ObjectId> objects_;
  std::vector<wire::HandleId> handles_;
};

// --- Reading ---------------------------------------------------------------------------------------------------

Calls read_calls(wire::HandleId handle, std::uint64_t offset, std::uint64_t wanted, std::size_t most_calls) {
  Calls calls;
  while (wanted > 0 && calls.size() < most_calls) {
    const auto size = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, wire::kMaxBody));
    calls.push_back({wire::Read{handle, offset, size}, {}});
    offset += size;
    wanted -= size;
  }
  return calls;
}

/// Appends what was read; true when the file's end was reached (a read gave less than it was asked for).
bool append_bodies(std::string& bytes, const Calls& reads, Answers& answers, std::size_t first) {
  for (std::size_t i = 0; i < reads.size(); ++i) {
    base::Bytes& body = answers[first + i]->body;
    const std::size_t asked = std::get<wire::Read>(reads[i].request).size;
    const bool is_end = body.size() < asked;
    if (body.size() > asked) body.resize(asked);
    if (bytes.empty())
      bytes = std::move(body);
    else
      bytes += body;
    if (is_end) return true;
  }
  return false;
}

// --- Listing ---------------------------------------------------------------------------------------------------

/// A packed entry with attributes takes more than this, so a page needs at most kMaxBody / this many ids.
constexpr std::uint64_t kLeastEntry = 16;

FileEntry entry_of(wire::DirEntry entry) {
  FileEntry made;
  made.name = std::move(entry.name);
  made.type = type_of(entry.type);
  if (entry.attributes) {
    made.info = info_of(*entry.attributes);
    made.type = made.info->type;
  }
  return made;
}

/// Gives a page's object ids back, within the bound of one request's array.
void release_page(ClientCore& core, wire::ObjectId first, const std::vector<wire::DirEntry>& page) {
  Calls calls;
  std::vector<wire::ObjectId> objects;
  for (const auto& entry : page) {
    if (!entry.attributes) continue;
    objects.emplace_back(first.value + entry.object_offset);
    if (objects.size() == wire::kMaxArray) calls.push_back({wire::Release{std::exchange(objects, {})}, {}});
  }
  if (!objects.empty()) calls.push_back({wire::Release{std::move(objects)}, {}});
  if (!calls.empty()) core.send(std::move(calls));
}

// --- Writing ---------------------------------------------------------------------------------------------------

/// Writes all of `bytes` from the file's start.
Result<void> write_all(ClientCore& core, wire::HandleId handle, std::string_view bytes, const std::string& operation) {
  std::uint64_t done = 0;
  while (done < bytes.size()) {
    Calls calls;
    for (std::uint64_t at = done; at < bytes.size() && calls.size() < kPipelined; at += wire::kMaxBody)
      calls.push_back({wire::Write{handle, at}, std::string(bytes.substr(at, wire::kMaxBody))});
    const Answers answers = core.exchange(std::move(calls));
    if (auto error = first_error(answers, operation); !error) return error;
    const std::uint64_t before = done;
    for (const auto& answer : answers) {
      const auto* reply = std::get_if<wire::Write::Reply>(&answer->reply);
      const std::uint64_t most = std::min<std::uint64_t>(wire::kMaxBody, bytes.size() - done);
      if (reply == nullptr || reply->count > most)
        return make_error(Errc::protocol, operation, "the agent sent a reply that cannot be");
      done += reply->count;
      if (reply->count < most) break;  // a short write: go on from there
    }
    if (done == before) return os_error(ENOSPC, operation);
  }
  return {};
}

/// One file being replaced: its new contents under a name of their own, then the rename.
class Replacement {
 public:
  Replacement(ClientCore& core, Place place, const WriteOptions& options, std::string operation)
      : core_(core),
        scope_(core),
        place_(std::move(place)),
        options_(options),
        operation_(std::move(operation)),
        temporary_(".sandbar-tmp-" + base::hex(base::random_bytes(8))) {}

  Result<void> run(std::string_view bytes) {
    if (auto created = create(); !created) return created;
    auto written = write_all(core_, handle_, bytes, operation_);
    if (written) written = finish();
    if (!written) core_.exchange({{wire::Unlink{parent_, temporary_}, {}}});
    return written;
  }

 private:
  Result<void> create() {
    parent_ = scope_.object();
    const wire::ObjectId old = scope_.object();
    file_ = scope_.object();
    handle_ = scope_.handle();
    wire::Create create{parent_, temporary_, 0600, O_WRONLY | O_EXCL, file_, handle_};
    const Answers answers = core_.exchange({{wire::Attach{parent_, place_.parent}, {}},
                                            {std::move(create), {}},
                                            {wire::Lookup{parent_, place_.name, old}, {}}});
    for (const std::size_t i : {0, 1})
      if (!answers[i]) return renamed(answers[i].error(), operation_);
    permissions_ = kNewFile;
    if (answers[2])
      if (const auto* reply = std::get_if<wire::AttributesReply>(&answers[2]->reply))
        if (S_ISREG(reply->attributes.mode)) permissions_ = reply->attributes.mode & kPermissions;
    if (options_.permissions) permissions_ = *options_.permissions & kPermissions;
    return {};
  }

  /// Mode, disk, close and name in one exchange: the agent does what is on one handle in order.
  Result<void> finish() {
    wire::SetAttributes mode;
    mode.object = file_;
    mode.mode = permissions_;
    Calls calls;
    calls.push_back({std::move(mode), {}});
    if (options_.sync) calls.push_back({wire::Fsync{handle_, false}, {}});
    auto error = first_error(core_.exchange(std::move(calls)), operation_);
    if (!error) return error;
    scope_.forget(handle_);
    const std::uint32_t flags = options_.exclusive ? kRenameNoReplace : 0;
    error = first_error(core_.exchange({{wire::Close{handle_}, {}},
                                        {wire::Rename{parent_, temporary_, parent_, place_.name, flags}, {}}}),
                        operation_);
    if (!error || !options_.sync) return error;
    const wire::HandleId directory = scope_.handle();
    return first_error(core_.exchange({{wire::Open{parent_, directory, O_RDONLY | O_DIRECTORY}, {}},
                                       {wire::Fsync{directory, false}, {}}}),
                       operation_);
  }

  ClientCore& core_;
  Scope scope_;
  const Place place_;
  const WriteOptions options_;
  const std::string operation_;
  const std::string temporary_;
  wire::ObjectId parent_, file_;
  wire::HandleId handle_;
  std::uint32_t permissions_ = kNewFile;
};

Result<void> make_one(ClientCore& core, const Place& place, std::uint32_t permissions, const std::string& operation) {
  Scope scope(core);
  const wire::ObjectId parent = scope.object();
  const wire::ObjectId made = scope.object();
  return first_error(core.exchange({{wire::Attach{parent, place.parent}, {}},
                                    {wire::MakeDirectory{parent, place.name, permissions & kPermissions, made}, {}}}),
                     operation);
}

bool is_os(const Result<void>& result, int os_errno) {
  return !result && result.error().code == Errc::os && result.error().os_errno == os_errno;
}

}  // namespace

Result<FileInfo> Files::stat(const std::string& path) const {
  const std::string operation = operation_on("stat", path);
  if (auto checked = check_path(path, operation); !checked) return std::move(checked).error();
  Scope scope(*core_);
  const auto attributes = attributes_in(core_->exchange({{wire::Attach{scope.object(), path}, {}}}), 0, operation);
  if (!attributes) return attributes.error();
  return info_of(*attributes);
}

Result<FileInfo> Files::lstat(const std::string& path) const {
  if (path.find_first_not_of("/.") == std::string::npos || path.ends_with("/.") || path.ends_with("/.."))
    return stat(path);
  const std::string operation = operation_on("lstat", path);
  const auto place = place_of(path, operation);
  if (!place) return place.error();
  Scope scope(*core_);
  const wire::ObjectId parent = scope.object();
  const wire::ObjectId object = scope.object();
  const auto answers =
      core_->exchange({{wire::Attach{parent, place->parent}, {}}, {wire::Lookup{parent, place->name, object}, {}}});
  const auto attributes = attributes_in(answers, 1, operation);
  if (!attributes) return attributes.error();
  return info_of(*attributes);
}

Result<std::vector<FileEntry>> Files::list(const std::string& path) const {
  const std::string operation = operation_on("list", path);
  if (auto checked = check_path(path, operation); !checked) return std::move(checked).error();
  Scope scope(*core_);
  const wire::ObjectId directory = scope.object();
  const wire::HandleId handle = scope.handle();
  Calls calls{{wire::Attach{directory, path}, {}}, {wire::Open{directory, handle, O_RDONLY | O_DIRECTORY}, {}}};
  std::vector<FileEntry> entries;
  std::uint64_t cookie = 0;
  for (;;) {
    const wire::ObjectId first = core_->new_object(wire::kMaxBody / kLeastEntry);
    calls.push_back({wire::List{handle, cookie, wire::kMaxBody, true, first}, {}});
    const Answers answers = core_->exchange(std::exchange(calls, {}));
    if (const auto error = first_error(answers, operation); !error) return error.error();
    auto page = wire::decode_dir_entries(answers.back()->body);
    if (!page) return renamed(std::move(page).error(), operation);
    if (page->empty()) return entries;
    release_page(*core_, first, *page);
    if (page->back().cookie == cookie) return make_error(Errc::protocol, operation, "the listing does not go on");
    cookie = page->back().cookie;
    for (auto& entry : *page)
      if (entry.name != "." && entry.name != "..") entries.push_back(entry_of(std::move(entry)));
  }
}

Result<std::string> Files::read(const std::string& path, ReadOptions options) const {
  const std::string operation = operation_on("read", path);
  if (auto checked = check_path(path, operation); !checked) return std::move(checked).error();
  Scope scope(*core_);
  const wire::ObjectId object = scope.object();
  const wire::HandleId handle = scope.handle();
  // A small file in one exchange; then as many at once as are worth it.
  Calls opening{{wire::Attach{object, path}, {}}, {wire::Open{object, handle, O_RDONLY}, {}}};
  Calls reads = read_calls(handle, options.offset, options.size, 1);
  opening.insert(opening.end(), reads.begin(), reads.end());
  Answers answers = core_->exchange(std::move(opening));
  std::string bytes;
  std::size_t first = 2;
  for (;;) {
    if (const auto error = first_error(answers, operation); !error) return error.error();
    if (append_bodies(bytes, reads, answers, first)) return bytes;
    reads = read_calls(handle, options.offset + bytes.size(), options.size - bytes.size(), kPipelined);
    if (reads.empty()) return bytes;
    answers = core_->exchange(reads);
    first = 0;
  }
}

Result<void> Files::write(const std::string& path, std::string_view bytes, const WriteOptions& options) const {
  const std::string operation = operation_on("write", path);
  auto place = place_of(path, operation);
  if (!place) return std::move(place).error();
  return Replacement(*core_, std::move(place).value(), options, operation).run(bytes);
}

Result<void> Files::make_directory(const std::string& path, std::uint32_t permissions, bool parents) const {
  const std::string operation = operation_on("make directory", path);
  const auto place = place_of(path, operation);
  if (!place) return place.error();
  auto made = make_one(*core_, *place, permissions, operation);
  if (!parents) return made;
  if (is_os(made, ENOENT) && place->parent.find_first_not_of('/') != std::string::npos) {
    if (auto above = make_directory(place->parent, 0777, true); !above) return above;
    made = make_one(*core_, *place, permissions, operation);
  }
  if (!is_os(made, EEXIST)) return made;
  const auto there = stat(path);
  return there && there->type == FileType::directory ? Result<void>() : made;
}

Result<void> Files::remove(const std::string& path) const {
  const std::string operation = operation_on("remove", path);
  const auto place = place_of(path, operation);
  if (!place) return place.error();
  Scope scope(*core_);
  const wire::ObjectId parent = scope.object();
  auto unlinked = first_error(
      core_->exchange({{wire::Attach{parent, place->parent}, {}}, {wire::Unlink{parent, place->name}, {}}}), operation);
  // EISDIR: unlink(2) of Linux for a directory.
  if (!is_os(unlinked, EISDIR)) return unlinked;
  return first_error(core_->exchange({{wire::RemoveDirectory{parent, place->name}, {}}}), operation);
}

Result<void> Files::rename(const std::string& from, const std::string& to) const {
  const std::string operation = operation_on("rename", from) + " to " + base::printable(to);
  const auto source = place_of(from, operation);
  if (!source) return source.error();
  const auto goal = place_of(to, operation);
  if (!goal) return goal.error();
  Scope scope(*core_);
  const wire::ObjectId old_parent = scope.object();
  const wire::ObjectId new_parent = scope.object();
  return first_error(core_->exchange({{wire::Attach{old_parent, source->parent}, {}},
                                      {wire::Attach{new_parent, goal->parent}, {}},
                                      {wire::Rename{old_parent, source->name, new_parent, goal->name, 0}, {}}}),
                     operation);
}

}  // namespace sandbar
