// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "wire/archive.h"
#include "wire/limits.h"
#include "wire/messages.h"

/// One list of fields for each message, for both directions, so that writing and reading cannot disagree; and the
/// messages' names on the wire. need() is always there, may() is left out at its default. sandbox-mux.7 repeats this.
namespace sandbar::wire {

/// The name of a request ("op") or of a reply's kind ("is").
template <class Message>
constexpr std::string_view kWireName;

// --- Session ---

void fields(auto& a, Of<Limits> auto& m) {
  a.need("max_body", m.max_body);
  a.need("max_requests", m.max_requests);
  a.need("request_window", m.request_window);
  a.need("max_channels", m.max_channels);
  a.need("channel_window", m.channel_window);
}

void fields(auto& a, Of<Hello> auto& m) {
  a.may("software", Text{m.software, kMaxLabel});
  a.may("capabilities", Texts{m.capabilities, kMaxLabel});
  a.need("limits", m.limits);
  a.may("journal", Text{m.journal, kMaxLabel});
  a.may("last_answered", m.last_answered);
  a.may("agent", Text{m.agent, kMaxLabel});
  a.may("epoch", m.epoch);
  a.may("root", ByteString{m.root, kMaxPath});
  a.may("uid", m.uid);
  a.may("gid", m.gid);
  a.may("last_mutation", m.last_mutation);
  a.may("journal_known", m.journal_known);
  a.may("session", Text{m.session, kMaxLabel});
  a.may("fence", m.fence);
  a.may("received", m.received);
  a.may("lease", m.lease);
  a.may("locks_lost", m.locks_lost);
}

void fields(auto& a, Of<Goodbye> auto& m) {
  a.need("code", Text{m.code, kMaxLabel});
  a.may("message", Text{m.message, kMaxErrorText});
}

// --- Files ---

template <>
inline constexpr std::string_view kWireName<Attach> = "attach";
void fields(auto& a, Of<Attach> auto& m) {
  a.need("object", m.object);
  a.need("path", ByteString{m.path, kMaxPath});
}

template <>
inline constexpr std::string_view kWireName<Lookup> = "lookup";
void fields(auto& a, Of<Lookup> auto& m) {
  a.need("parent", m.parent);
  a.need("name", ByteString{m.name, kMaxName});
  a.need("object", m.object);
}

template <>
inline constexpr std::string_view kWireName<Restore> = "restore";
void fields(auto& a, Of<Restore> auto& m) {
  a.need("object", m.object);
  a.may("parent", m.parent);
  a.need("path", ByteString{m.path, kMaxPath});
  a.need("device", m.device);
  a.need("inode", m.inode);
  a.may("birth", m.birth);
}

template <>
inline constexpr std::string_view kWireName<Release> = "release";
void fields(auto& a, Of<Release> auto& m) { a.need("objects", m.objects); }

template <>
inline constexpr std::string_view kWireName<GetAttributes> = "get_attributes";
void fields(auto& a, Of<GetAttributes> auto& m) {
  a.need("object", m.object);
  a.may("handle", m.handle);
}

template <>
inline constexpr std::string_view kWireName<SetAttributes> = "set_attributes";
void fields(auto& a, Of<SetAttributes> auto& m) {
  a.need("object", m.object);
  a.may("handle", m.handle);
  a.may("mode", m.mode);
  a.may("uid", m.uid);
  a.may("gid", m.gid);
  a.may("size", m.size);
  a.may("accessed", m.accessed);
  a.may("modified", m.modified);
  a.may("accessed_now", m.accessed_now);
  a.may("modified_now", m.modified_now);
}

template <>
inline constexpr std::string_view kWireName<ReadLink> = "read_link";
void fields(auto& a, Of<ReadLink> auto& m) {
  a.need("object", m.object);
  a.may("directory", m.directory);
  a.may("top", m.top);
  a.may("depth", m.depth);
}

template <>
inline constexpr std::string_view kWireName<MakeDirectory> = "make_directory";
void fields(auto& a, Of<MakeDirectory> auto& m) {
  a.need("parent", m.parent);
  a.need("name", ByteString{m.name, kMaxName});
  a.need("mode", m.mode);
  a.need("object", m.object);
}

template <>
inline constexpr std::string_view kWireName<MakeNode> = "make_node";
void fields(auto& a, Of<MakeNode> auto& m) {
  a.need("parent", m.parent);
  a.need("name", ByteString{m.name, kMaxName});
  a.need("mode", m.mode);
  a.may("rdev", m.rdev);
  a.need("object", m.object);
}

template <>
inline constexpr std::string_view kWireName<MakeSymlink> = "make_symlink";
void fields(auto& a, Of<MakeSymlink> auto& m) {
  a.need("parent", m.parent);
  a.need("name", ByteString{m.name, kMaxName});
  a.need("target", ByteString{m.target, kMaxPath});
  a.need("object", m.object);
}

template <>
inline constexpr std::string_view kWireName<MakeLink> = "make_link";
void fields(auto& a, Of<MakeLink> auto& m) {
  a.need("object", m.object);
  a.need("new_parent", m.new_parent);
  a.need("new_name", ByteString{m.new_name, kMaxName});
}

template <>
inline constexpr std::string_view kWireName<Unlink> = "unlink";
void fields(auto& a, Of<Unlink> auto& m) {
  a.need("parent", m.parent);
  a.need("name", ByteString{m.name, kMaxName});
}

template <>
inline constexpr std::string_view kWireName<RemoveDirectory> = "remove_directory";
void fields(auto& a, Of<RemoveDirectory> auto& m) {
  a.need("parent", m.parent);
  a.need("name", ByteString{m.name, kMaxName});
}

template <>
inline constexpr std::string_view kWireName<Rename> = "rename";
void fields(auto& a, Of<Rename> auto& m) {
  a.need("parent", m.parent);
  a.need("name", ByteString{m.name, kMaxName});
  a.need("new_parent", m.new_parent);
  a.need("new_name", ByteString{m.new_name, kMaxName});
  a.may("flags", m.flags);
}

template <>
inline constexpr std::string_view kWireName<Open> = "open";
void fields(auto& a, Of<Open> auto& m) {
  a.need("object", m.object);
  a.need("handle", m.handle);
  a.may("flags", m.flags);
}

template <>
inline constexpr std::string_view kWireName<Create> = "create";
void fields(auto& a, Of<Create> auto& m) {
  a.need("parent", m.parent);
  a.need("name", ByteString{m.name, kMaxName});
  a.need("mode", m.mode);
  a.may("flags", m.flags);
  a.need("object", m.object);
  a.need("handle", m.handle);
}

template <>
inline constexpr std::string_view kWireName<Close> = "close";
void fields(auto& a, Of<Close> auto& m) { a.need("handle", m.handle); }

template <>
inline constexpr std::string_view kWireName<Read> = "read";
void fields(auto& a, Of<Read> auto& m) {
  a.need("handle", m.handle);
  a.may("offset", m.offset);
  a.need("size", m.size);
}

template <>
inline constexpr std::string_view kWireName<Write> = "write";
void fields(auto& a, Of<Write> auto& m) {
  a.need("handle", m.handle);
  a.may("offset", m.offset);
  a.may("append", m.append);
}

template <>
inline constexpr std::string_view kWireName<Fsync> = "fsync";
void fields(auto& a, Of<Fsync> auto& m) {
  a.need("handle", m.handle);
  a.may("data_only", m.data_only);
}

template <>
inline constexpr std::string_view kWireName<List> = "list";
void fields(auto& a, Of<List> auto& m) {
  a.need("handle", m.handle);
  a.may("cookie", m.cookie);
  a.need("max_bytes", m.max_bytes);
  a.may("attributes", m.attributes);
  a.may("first_object", m.first_object);
}

template <>
inline constexpr std::string_view kWireName<StatFs> = "statfs";
void fields(auto& a, Of<StatFs> auto& m) { a.need("object", m.object); }

template <>
inline constexpr std::string_view kWireName<GetXattr> = "get_xattr";
void fields(auto& a, Of<GetXattr> auto& m) {
  a.need("object", m.object);
  a.need("name", ByteString{m.name, kMaxXattrName});
}

template <>
inline constexpr std::string_view kWireName<SetXattr> = "set_xattr";
void fields(auto& a, Of<SetXattr> auto& m) {
  a.need("object", m.object);
  a.need("name", ByteString{m.name, kMaxXattrName});
  a.may("flags", m.flags);
}

template <>
inline constexpr std::string_view kWireName<ListXattr> = "list_xattr";
void fields(auto& a, Of<ListXattr> auto& m) { a.need("object", m.object); }

template <>
inline constexpr std::string_view kWireName<RemoveXattr> = "remove_xattr";
void fields(auto& a, Of<RemoveXattr> auto& m) {
  a.need("object", m.object);
  a.need("name", ByteString{m.name, kMaxXattrName});
}

template <>
inline constexpr std::string_view kWireName<Lock> = "lock";
void fields(auto& a, Of<Lock> auto& m) {
  a.need("handle", m.handle);
  a.need("owner", m.owner);
  a.need("kind", m.kind);
  a.need("type", m.type);
  a.may("wait", m.wait);
  a.may("start", m.start);
  a.may("length", m.length);
}

template <>
inline constexpr std::string_view kWireName<TestLock> = "test_lock";
void fields(auto& a, Of<TestLock> auto& m) {
  a.need("handle", m.handle);
  a.need("owner", m.owner);
  a.need("type", m.type);
  a.may("start", m.start);
  a.may("length", m.length);
}

template <>
inline constexpr std::string_view kWireName<Allocate> = "allocate";
void fields(auto& a, Of<Allocate> auto& m) {
  a.need("handle", m.handle);
  a.may("mode", m.mode);
  a.may("offset", m.offset);
  a.need("length", m.length);
}

template <>
inline constexpr std::string_view kWireName<Seek> = "seek";
void fields(auto& a, Of<Seek> auto& m) {
  a.need("handle", m.handle);
  a.may("offset", m.offset);
  a.need("whence", m.whence);
}

template <>
inline constexpr std::string_view kWireName<CopyRange> = "copy_range";
void fields(auto& a, Of<CopyRange> auto& m) {
  a.need("from", m.from);
  a.may("from_offset", m.from_offset);
  a.need("to", m.to);
  a.may("to_offset", m.to_offset);
  a.need("length", m.length);
}

// --- Processes ---

void fields(auto& a, Of<Spawn::After> auto& m) {
  a.need("journal", Text{m.journal, kMaxLabel});
  a.need("mutation", m.mutation);
}

// The sum of an argv and an environment is bounded by kMaxHead; one string may take all of it.
template <>
inline constexpr std::string_view kWireName<Spawn> = "spawn";
void fields(auto& a, Of<Spawn> auto& m) {
  a.need("id", Text{m.id, kMaxProcessId});
  a.need("argv", ByteStrings{m.argv, kMaxHead});
  a.may("env", ByteStrings{m.env, kMaxHead});
  a.may("cwd", ByteString{m.cwd, kMaxPath});
  a.may("stdin", m.stdin_channel);
  a.may("stdout", m.stdout_channel);
  a.may("stderr", m.stderr_channel);
  a.may("start_after", m.after);  // "after" is every request's own
}

template <>
inline constexpr std::string_view kWireName<WaitProcess> = "wait_process";
void fields(auto& a, Of<WaitProcess> auto& m) { a.need("id", Text{m.id, kMaxProcessId}); }

template <>
inline constexpr std::string_view kWireName<SignalProcess> = "signal_process";
void fields(auto& a, Of<SignalProcess> auto& m) {
  a.need("id", Text{m.id, kMaxProcessId});
  a.need("signal", m.signal);
}

// --- Access ---

template <>
inline constexpr std::string_view kWireName<Authorize> = "authorize";
void fields(auto& a, Of<Authorize> auto& m) { a.need("token", Text{m.token, kMaxToken}); }

// --- Replies ---

template <>
inline constexpr std::string_view kWireName<EmptyReply> = "empty";
void fields(auto&, Of<EmptyReply> auto&) {}

template <>
inline constexpr std::string_view kWireName<AttributesReply> = "attributes";
void fields(auto& a, Of<AttributesReply> auto& m) { a.need("attributes", m.attributes); }

template <>
inline constexpr std::string_view kWireName<CountReply> = "count";
void fields(auto& a, Of<CountReply> auto& m) { a.need("count", m.count); }

template <>
inline constexpr std::string_view kWireName<ReadLink::Reply> = "target";
void fields(auto& a, Of<ReadLink::Reply> auto& m) {
  a.need("target", ByteString{m.target, kMaxPath});
  a.may("inside", ByteString{m.inside, kMaxPath});
}

template <>
inline constexpr std::string_view kWireName<Write::Reply> = "written";
void fields(auto& a, Of<Write::Reply> auto& m) {
  a.need("count", m.count);
  a.may("offset", m.offset);
}

template <>
inline constexpr std::string_view kWireName<StatFs::Reply> = "statfs";
void fields(auto& a, Of<StatFs::Reply> auto& m) {
  a.need("block_size", m.block_size);
  a.need("fragment_size", m.fragment_size);
  a.need("blocks", m.blocks);
  a.need("blocks_free", m.blocks_free);
  a.need("blocks_available", m.blocks_available);
  a.need("files", m.files);
  a.need("files_free", m.files_free);
  a.need("name_max", m.name_max);
}

template <>
inline constexpr std::string_view kWireName<TestLock::Reply> = "lock";
void fields(auto& a, Of<TestLock::Reply> auto& m) {
  a.need("type", m.type);
  a.may("start", m.start);
  a.may("length", m.length);
  a.may("pid", m.pid);
}

template <>
inline constexpr std::string_view kWireName<Seek::Reply> = "offset";
void fields(auto& a, Of<Seek::Reply> auto& m) { a.need("offset", m.offset); }

template <>
inline constexpr std::string_view kWireName<Spawn::Reply> = "spawned";
void fields(auto& a, Of<Spawn::Reply> auto& m) { a.need("pid", m.pid); }

template <>
inline constexpr std::string_view kWireName<WaitProcess::Reply> = "exit";
void fields(auto& a, Of<WaitProcess::Reply> auto& m) {
  a.may("code", m.code);
  a.may("signal", m.signal);
  a.may("core_dumped", m.core_dumped);
  a.may("exit_change", m.change);  // "change" is every reply's own
}

// --- Envelopes: these go behind the message's own fields ---

void fields(auto& a, Of<RequestContext> auto& m) {
  a.may("caller", m.caller);
  a.may("mutation", m.mutation);
  a.may("after", m.after);
}

}  // namespace sandbar::wire
