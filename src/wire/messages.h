// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "wire/ids.h"
#include "wire/session_messages.h"

/// The messages as plain structs; codec.h turns them into JSON heads. Numbers (errno, open flags, modes, signals,
/// rename flags, whence) are Linux's on x86-64. Names and paths are bytes. A request type names its reply as `Reply`.
/// sandbox-mux.7 is the specification; a change here is a change there.
namespace sandbar::wire {

// --- Common parts ----------------------------------------------------------------------------------------------

/// On whose behalf a request acts, in the sandbox's numbers (already mapped).
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  ///< supplementary
  std::uint32_t umask = 0;            ///< applied to modes of new objects by the agent; 0 where the client's kernel did
  bool operator==(const Caller&) const = default;
};

/// Nanoseconds since 1970 can exceed 64 bits' signed range in theory (ext4 reaches 2446, XFS 2486, others more).
struct Time {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;  ///< 0..999,999,999
  bool operator==(const Time&) const = default;
};

/// statx(2)'s fields. `device` with `inode` and `birth` is an object's identity.
struct Attributes {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  Time birth;              ///< 0 where the file system has none
  std::uint32_t mode = 0;  ///< type and permissions
  std::uint32_t links = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t rdev = 0;    ///< makedev(3)
  std::uint64_t size = 0;    ///< bytes
  std::uint64_t blocks = 0;  ///< of 512 bytes
  std::uint32_t block_size = 0;
  Time accessed;
  Time modified;
  Time changed;
  bool has_xattrs = false;  ///< any extended attribute, ACLs included; true also where it is not known
  bool operator==(const Attributes&) const = default;
};

/// One entry of a listing; travels in the body (dirents.h), not in the head.
struct DirEntry {
  base::Bytes name;
  std::uint64_t cookie = 0;  ///< where a listing that starts behind this entry begins (opaque, survives changes)
  std::uint64_t inode = 0;
  std::uint32_t type = 0;  ///< S_IFMT bits; 0 unknown
  /// With List::attributes, for entries other than "." and "..": their attributes, under object id
  /// `first_object + object_offset`. Absent for an entry that vanished meanwhile.
  std::optional<Attributes> attributes;
  std::uint32_t object_offset = 0;
  bool operator==(const DirEntry&) const = default;
};

// --- Replies that several requests share -----------------------------------------------------------------------

struct EmptyReply {
  bool operator==(const EmptyReply&) const = default;
};
struct AttributesReply {
  Attributes attributes;
  bool operator==(const AttributesReply&) const = default;
};
struct CountReply {
  std::uint64_t count = 0;
  bool operator==(const CountReply&) const = default;
};

// --- Files, posix profile --------------------------------------------------------------------------------------

/// Binds `object` to the directory or file at `path`, resolved inside the agent's root (symlinks too).
struct Attach {
  using Reply = AttributesReply;
  ObjectId object;
  base::Bytes path;  ///< "/" is the root; a leading slash changes nothing
  bool operator==(const Attach&) const = default;
};

/// Binds `object` to the entry `name` of `parent`; a symlink is not followed. "." and ".." are refused (EINVAL).
struct Lookup {
  using Reply = AttributesReply;
  ObjectId parent;
  base::Bytes name;
  ObjectId object;
  bool operator==(const Lookup&) const = default;
};

/// Binds `object` to what an earlier session of the client knew, if that is still there: ESTALE where the place leads
/// to another object, or nowhere. A client whose session was lost names its objects again by this.
struct Restore {
  using Reply = AttributesReply;
  ObjectId object;
  ObjectId parent;   ///< `path` is the name of an entry of this directory; 0: a path as Attach's
  base::Bytes path;  ///< a symlink at its end is followed only where it is not itself the object
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  Time birth;
  bool operator==(const Restore&) const = default;
};

/// The client will not name these again. Unknown ids are ignored.
struct Release {
  using Reply = EmptyReply;
  std::vector<ObjectId> objects;
  bool operator==(const Release&) const = default;
};

struct GetAttributes {
  using Reply = AttributesReply;
  ObjectId object;
  HandleId handle;  ///< when not 0, of this open file (which may be unlinked)
  bool operator==(const GetAttributes&) const = default;
};

struct SetAttributes {
  using Reply = AttributesReply;
  ObjectId object;
  HandleId handle;                    ///< when not 0, truncate through this open file
  std::optional<std::uint32_t> mode;  ///< permission bits, 07777
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::uint64_t> size;
  std::optional<Time> accessed;
  std::optional<Time> modified;
  bool accessed_now = false;  ///< UTIME_NOW on the agent's clock
  bool modified_now = false;
  bool operator==(const SetAttributes&) const = default;
};

/// With `directory`, a client that shows links as staying below `top` asks where one leads that might not: one whose
/// target base::stays_below() denies at `depth`.
struct ReadLink {
  struct Reply {
    base::Bytes target;  ///< as it is stored
    /// Where it leads, below `top`: plain names, every link on the way resolved but the last name; a final slash where
    /// the target has one; "/" is `top`. Empty when that is outside of `top`, cannot be told, or was not asked for.
    base::Bytes inside;
    bool operator==(const Reply&) const = default;
  };
  ObjectId object;
  ObjectId directory;       ///< where the link was found; 0: only the target is wanted
  ObjectId top;             ///< a directory above; used with `directory`
  std::uint32_t depth = 0;  ///< how far `directory` lies below `top`, as the client knows it
  bool operator==(const ReadLink&) const = default;
};

struct MakeDirectory {
  using Reply = AttributesReply;
  ObjectId parent;
  base::Bytes name;
  std::uint32_t mode = 0;
  ObjectId object;
  bool operator==(const MakeDirectory&) const = default;
};

/// Regular files, FIFOs, sockets and device nodes; the last need CAP_MKNOD of the caller and are never opened by the
/// agent.
struct MakeNode {
  using Reply = AttributesReply;
  ObjectId parent;
  base::Bytes name;
  std::uint32_t mode = 0;  ///< with S_IFMT bits
  std::uint64_t rdev = 0;  ///< of a device node, as in Attributes
  ObjectId object;
  bool operator==(const MakeNode&) const = default;
};

struct MakeSymlink {
  using Reply = AttributesReply;
  ObjectId parent;
  base::Bytes name;
  base::Bytes target;
  ObjectId object;
  bool operator==(const MakeSymlink&) const = default;
};

struct MakeLink {
  using Reply = AttributesReply;  ///< of the object, with its new link count
  ObjectId object;
  ObjectId new_parent;
  base::Bytes new_name;
  bool operator==(const MakeLink&) const = default;
};

struct Unlink {
  using Reply = EmptyReply;
  ObjectId parent;
  base::Bytes name;
  bool operator==(const Unlink&) const = default;
};

struct RemoveDirectory {
  using Reply = EmptyReply;
  ObjectId parent;
  base::Bytes name;
  bool operator==(const RemoveDirectory&) const = default;
};

struct Rename {
  using Reply = EmptyReply;
  ObjectId parent;
  base::Bytes name;
  ObjectId new_parent;
  base::Bytes new_name;
  std::uint32_t flags = 0;  ///< RENAME_NOREPLACE 1, RENAME_EXCHANGE 2, RENAME_WHITEOUT 4
  bool operator==(const Rename&) const = default;
};

/// The kernel's FMODE_EXEC, which it adds to the flags of an open for execve(2).
constexpr std::uint32_t kOpenToExecute = 040;

/// Opens an object as `handle`. O_DIRECTORY for listings. O_CREAT and O_EXCL are refused: see Create. O_TRUNC makes
/// it a mutation. O_APPEND as Write::append for every write. With kOpenToExecute a file that the caller may execute but
/// not read is opened for reading, as execve(2) does.
struct Open {
  using Reply = AttributesReply;
  ObjectId object;
  HandleId handle;
  /// O_ACCMODE | O_TRUNC | O_APPEND | O_DIRECTORY | O_SYNC | O_DSYNC | O_NOATIME | kOpenToExecute
  std::uint32_t flags = 0;
  bool operator==(const Open&) const = default;
};

/// Creates (O_CREAT is implied) and opens. Without O_EXCL an existing regular file is opened.
struct Create {
  using Reply = AttributesReply;
  ObjectId parent;
  base::Bytes name;
  std::uint32_t mode = 0;
  std::uint32_t flags = 0;
  ObjectId object;
  HandleId handle;
  bool operator==(const Create&) const = default;
};

struct Close {
  using Reply = EmptyReply;
  HandleId handle;
  bool operator==(const Close&) const = default;
};

/// The reply's body holds the bytes; fewer than asked for only at the end of the file.
struct Read {
  using Reply = EmptyReply;
  HandleId handle;
  std::uint64_t offset = 0;
  std::uint32_t size = 0;  ///< at most kMaxBody
  bool operator==(const Read&) const = default;
};

/// The request's body holds the bytes.
struct Write {
  struct Reply {
    std::uint64_t count = 0;   ///< bytes written
    std::uint64_t offset = 0;  ///< where: what an append found
    bool operator==(const Reply&) const = default;
  };
  HandleId handle;
  std::uint64_t offset = 0;
  bool append = false;  ///< write at the end, which the agent finds; `offset` is ignored
  bool operator==(const Write&) const = default;
};

/// Answered when data (and unless `data_only` the metadata) is on the disk. Also of directory handles.
struct Fsync {
  using Reply = EmptyReply;
  HandleId handle;
  bool data_only = false;
  bool operator==(const Fsync&) const = default;
};

/// A page of a directory's entries from `cookie` (0 is the start) in the reply's body (dirents.h). An empty body is the
/// end. "." and ".." are among them.
struct List {
  using Reply = EmptyReply;
  HandleId handle;
  std::uint64_t cookie = 0;
  std::uint32_t max_bytes = 0;  ///< of the body; at least one entry is sent if there is one
  bool attributes = false;
  ObjectId first_object;  ///< with `attributes`: ids from here on are bound to the entries, at most one for each
  bool operator==(const List&) const = default;
};

struct StatFs {
  struct Reply {
    std::uint64_t block_size = 0;
    std::uint64_t fragment_size = 0;
    std::uint64_t blocks = 0;
    std::uint64_t blocks_free = 0;
    std::uint64_t blocks_available = 0;
    std::uint64_t files = 0;
    std::uint64_t files_free = 0;
    std::uint64_t name_max = 0;
    bool operator==(const Reply&) const = default;
  };
  ObjectId object;
  bool operator==(const StatFs&) const = default;
};

/// The value in the reply's body.
struct GetXattr {
  using Reply = EmptyReply;
  ObjectId object;
  base::Bytes name;
  bool operator==(const GetXattr&) const = default;
};

/// The request's body holds the value.
struct SetXattr {
  using Reply = EmptyReply;
  ObjectId object;
  base::Bytes name;
  std::uint32_t flags = 0;  ///< XATTR_CREATE 1, XATTR_REPLACE 2
  bool operator==(const SetXattr&) const = default;
};

/// The names, each followed by a zero byte, in the reply's body.
struct ListXattr {
  using Reply = EmptyReply;
  ObjectId object;
  bool operator==(const ListXattr&) const = default;
};

struct RemoveXattr {
  using Reply = EmptyReply;
  ObjectId object;
  base::Bytes name;
  bool operator==(const RemoveXattr&) const = default;
};

enum class LockKind : std::uint8_t { posix, flock };
enum class LockType : std::uint8_t { read, write, unlock };

/// Takes or gives back a lock of (session, owner). With `wait` it is answered when granted; cancelling the request
/// gives up. flock locks cover the whole file. Closing the session gives all back.
struct Lock {
  using Reply = EmptyReply;
  HandleId handle;
  LockOwner owner;
  LockKind kind = LockKind::posix;
  LockType type = LockType::read;
  bool wait = false;
  std::uint64_t start = 0;
  std::uint64_t length = 0;  ///< 0: to the end of the file, however it grows
  bool operator==(const Lock&) const = default;
};

/// F_GETLK: what stands in the way of the given lock; `type` is unlock where nothing does.
struct TestLock {
  struct Reply {
    LockType type = LockType::unlock;
    std::uint64_t start = 0;
    std::uint64_t length = 0;
    std::uint32_t pid = 0;  ///< in the sandbox; 0 where the holder is a client of the agent
    bool operator==(const Reply&) const = default;
  };
  HandleId handle;
  LockOwner owner;
  LockType type = LockType::read;
  std::uint64_t start = 0;
  std::uint64_t length = 0;
  bool operator==(const TestLock&) const = default;
};

struct Allocate {
  using Reply = EmptyReply;
  HandleId handle;
  std::uint32_t mode = 0;  ///< FALLOC_FL_*
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool operator==(const Allocate&) const = default;
};

struct Seek {
  struct Reply {
    std::uint64_t offset = 0;
    bool operator==(const Reply&) const = default;
  };
  HandleId handle;
  std::uint64_t offset = 0;
  std::uint32_t whence = 0;  ///< SEEK_DATA 3, SEEK_HOLE 4
  bool operator==(const Seek&) const = default;
};

struct CopyRange {
  using Reply = CountReply;
  HandleId from;
  std::uint64_t from_offset = 0;
  HandleId to;
  std::uint64_t to_offset = 0;
  std::uint64_t length = 0;
  bool operator==(const CopyRange&) const = default;
};

// --- Processes -------------------------------------------------------------------------------------------------

/// Starts a process in a process group of its own. The client has opened the channels; the agent ends stdout and
/// stderr after their last byte. A spawn that is refused resets them.
struct Spawn {
  struct Reply {
    std::uint32_t pid = 0;  ///< in the sandbox
    bool operator==(const Reply&) const = default;
  };
  struct After {
    std::string journal;
    MutationNumber mutation;
    bool operator==(const After&) const = default;
  };
  std::string id;  ///< the client's name for it; a second spawn of the same name starts nothing
  std::vector<base::Bytes> argv;
  std::vector<base::Bytes> env;  ///< "NAME=value", added to the agent's own
  base::Bytes cwd;               ///< path inside the agent's root
  ChannelId stdin_channel;       ///< 0: /dev/null
  ChannelId stdout_channel;
  ChannelId stderr_channel;
  std::optional<After> after;  ///< start only when that mutation is done
  bool operator==(const Spawn&) const = default;
};

/// Answered when the process has ended. Its output streams end on their own.
struct WaitProcess {
  struct Reply {
    std::uint32_t code = 0;    ///< exit code, when `signal` is 0
    std::uint32_t signal = 0;  ///< the signal that ended it
    bool core_dumped = false;
    ChangeNumber change;  ///< covers what it changed
    bool operator==(const Reply&) const = default;
  };
  std::string id;
  bool operator==(const WaitProcess&) const = default;
};

/// To the whole process group. One that has ended already is no error.
struct SignalProcess {
  using Reply = EmptyReply;
  std::string id;
  std::uint32_t signal = 0;
  bool operator==(const SignalProcess&) const = default;
};

// --- Access -----------------------------------------------------------------------------------------------------

/// Adds a grant to the session's; it must be of the session's subject. Whole in the head.
struct Authorize {
  using Reply = EmptyReply;
  std::string token;  ///< as a bearer token would be; in no log and no error
  bool operator==(const Authorize&) const = default;
};

// --- Envelopes -------------------------------------------------------------------------------------------------

using RequestBody =
    std::variant<Attach, Lookup, Restore, Release, GetAttributes, SetAttributes, ReadLink, MakeDirectory, MakeNode,
                 MakeSymlink, MakeLink, Unlink, RemoveDirectory, Rename, Open, Create, Close, Read, Write, Fsync, List,
                 StatFs, GetXattr, SetXattr, ListXattr, RemoveXattr, Lock, TestLock, Allocate, Seek, CopyRange, Spawn,
                 WaitProcess, SignalProcess, Authorize>;

/// What every request carries beside its own fields.
struct RequestContext {
  std::optional<Caller> caller;  ///< none: the agent's own identity
  MutationNumber mutation;       ///< this request's number in the session's journal
  MutationNumber after;          ///< execute only when this mutation of the session's journal is done
  bool operator==(const RequestContext&) const = default;
};

struct Request {
  RequestContext context;
  RequestBody body;
  bool operator==(const Request&) const = default;
};

using ReplyBody = std::variant<EmptyReply, AttributesReply, CountReply, ReadLink::Reply, Write::Reply, StatFs::Reply,
                               TestLock::Reply, Seek::Reply, Spawn::Reply, WaitProcess::Reply>;

struct Reply {
  ChangeNumber change;  ///< covers the effects of the request
  ReplyBody body;
  bool operator==(const Reply&) const = default;
};

/// The stable wire name of a request: "lookup", "make_directory", ...
const char* request_name(const RequestBody& body);

}  // namespace sandbar::wire
