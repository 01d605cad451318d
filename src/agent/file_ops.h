// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "agent/handles.h"
#include "agent/objects.h"
#include "agent/root.h"
#include "base/bytes.h"
#include "sandbar/result.h"
#include "wire/messages.h"

/// One function a request of the file service: what it does to the kernel, on a worker, with the caller's identity. The
/// ids are looked up before, and bound after, by FileCore. Errors are the kernel's own wherever it was asked.
namespace sandbar::agent {

/// The objects and open files that a request names, in the order of its fields; null where it names none.
struct FileTargets {
  ObjectPtr object;
  ObjectPtr second;
  ObjectPtr third;
  OpenFilePtr file;
  OpenFilePtr second_file;
};

struct FileJob {
  Root& root;
  wire::Request request;
  base::Bytes body;
  FileTargets targets;
  /// The request has been executed before, and this is what its object was then: it is to be bound again, and nothing
  /// else is to be done.
  std::optional<wire::Attributes> known{};
};

struct FileOutcome {
  wire::ReplyBody reply = wire::EmptyReply{};
  base::Bytes body;
  std::vector<ObjectPtr> objects;  ///< to bind: to the request's id, or from a listing's first id on
  OpenFilePtr opened;
};

using FileResult = Result<FileOutcome>;

FileResult perform(const FileJob& job, const wire::Attach& request);
FileResult perform(const FileJob& job, const wire::Lookup& request);
FileResult perform(const FileJob& job, const wire::Restore& request);
FileResult perform(const FileJob& job, const wire::GetAttributes& request);
FileResult perform(const FileJob& job, const wire::SetAttributes& request);
FileResult perform(const FileJob& job, const wire::ReadLink& request);
FileResult perform(const FileJob& job, const wire::MakeDirectory& request);
FileResult perform(const FileJob& job, const wire::MakeNode& request);
FileResult perform(const FileJob& job, const wire::MakeSymlink& request);
FileResult perform(const FileJob& job, const wire::MakeLink& request);
FileResult perform(const FileJob& job, const wire::Unlink& request);
FileResult perform(const FileJob& job, const wire::RemoveDirectory& request);
FileResult perform(const FileJob& job, const wire::Rename& request);
FileResult perform(const FileJob& job, const wire::Open& request);
FileResult perform(const FileJob& job, const wire::Create& request);
FileResult perform(const FileJob& job, const wire::Close& request);
FileResult perform(const FileJob& job, const wire::Read& request);
FileResult perform(const FileJob& job, const wire::Write& request);
FileResult perform(const FileJob& job, const wire::Fsync& request);
FileResult perform(const FileJob& job, const wire::List& request);
FileResult perform(const FileJob& job, const wire::StatFs& request);
FileResult perform(const FileJob& job, const wire::GetXattr& request);
FileResult perform(const FileJob& job, const wire::SetXattr& request);
FileResult perform(const FileJob& job, const wire::ListXattr& request);
FileResult perform(const FileJob& job, const wire::RemoveXattr& request);
FileResult perform(const FileJob& job, const wire::Allocate& request);
FileResult perform(const FileJob& job, const wire::Seek& request);
FileResult perform(const FileJob& job, const wire::CopyRange& request);

/// All of the above, with the caller's identity put on and the change counted: the answer's Reply::change.
struct PerformedFile {
  FileResult result;
  wire::ChangeNumber change;
};
PerformedFile perform_file_request(const FileJob& job);

/// What a mutation that was done before binds (FileJob::known): the entry, if it is the same object still, and a new
/// open file without what O_TRUNC, O_CREAT and O_EXCL do. ESTALE when another object is there.
FileResult perform_again(const FileJob& job);
/// Whether the state after executing the request twice is the one after executing it once, so that one whose result is
/// lost may simply be executed.
bool may_execute_twice(const wire::RequestBody& body);

// --- For the implementations ---------------------------------------------------------------------------------------

/// EINVAL for names that are no single name ("", ".", "..", with '/' or a zero byte), ENAMETOOLONG.
Result<void> check_name(const base::Bytes& name);
/// EINVAL for bytes that the kernel would see cut.
Result<void> check_no_zero(const base::Bytes& text, const char* operation);
/// EINVAL for offsets, lengths and their sums that do not fit off_t.
Result<void> check_range(std::uint64_t offset, std::uint64_t length, const char* operation);

/// Attributes of a descriptor with has_xattrs.
Result<wire::Attributes> full_attributes(int fd);
FileResult attributes_outcome(int fd);
/// The umask of the request's caller.
std::uint32_t caller_umask(const FileJob& job);

/// Opens what the O_PATH descriptor `path` refers to, if it is a regular file or a directory: others are refused, as
/// they could block or do things when they are opened.
Result<OpenFilePtr> open_for_io(const FileJob& job, const ObjectPtr& object, int path, std::uint32_t flags);
/// O_ACCMODE, O_TRUNC, O_APPEND, O_DIRECTORY, O_SYNC, O_DSYNC of `flags`; EINVAL for O_ACCMODE 3.
Result<int> io_flags(std::uint32_t flags);

}  // namespace sandbar::agent
