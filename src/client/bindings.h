// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sandbar/result.h"
#include "wire/messages.h"

namespace sandbar::client {

/// How the live ids of a client were bound, so that they can be bound again in a new session: for each object who it is
/// and where it was seen last, kept right over this client's own renames and unlinks; for each handle its object and
/// flags. Filled from answers; what they say is the sandbox's word, and only ever leads back to it.
///
/// About 220 bytes an object (names of up to 15 bytes included) and 64 a handle. On the loop's thread.
class Bindings {
 public:
  /// As many as an agent keeps; those beyond are not found again.
  static constexpr std::size_t kMaxObjects = 2'000'000;

  // --- What answers tell; the ids are bound in this session then ---

  void attached(wire::ObjectId object, base::BytesView path, const wire::Attributes& attributes);
  /// `object` is the entry `name` of `parent`.
  void found(wire::ObjectId parent, base::BytesView name, wire::ObjectId object, const wire::Attributes& attributes);
  /// The same for an entry of the directory that is open as `directory`.
  void listed(wire::HandleId directory, base::BytesView name, wire::ObjectId object,
              const wire::Attributes& attributes);
  void opened(wire::HandleId handle, wire::ObjectId object, std::uint32_t flags);
  /// A name is gone: whatever was seen there has no known place any more.
  void removed(wire::ObjectId parent, base::BytesView name);
  void renamed(const wire::Rename& request);
  /// The object has a new name, which counts as its place (who links as a rule unlinks the old name next).
  void linked(wire::ObjectId object, wire::ObjectId parent, base::BytesView name);

  // --- What ends ---

  void release(wire::ObjectId object);
  void close(wire::HandleId handle);
  /// Nothing is bound any more; all is known still.
  void session_lost() { ++session_; }

  // --- In a new session ---

  /// Appends to `first` what must be sent so that the id is bound: nothing when it is, or when nothing is known of it.
  /// ESTALE for one whose place is not known (removed by us, or more than kMaxPath away from where it was attached);
  /// `first` may have something even so. What is appended counts as bound until unbound().
  Result<void> restore(wire::ObjectId object, std::vector<wire::RequestBody>& first);
  Result<void> restore(wire::HandleId handle, std::vector<wire::RequestBody>& first);
  /// What restore() appended has failed.
  void unbound(wire::ObjectId object);
  void unbound(wire::HandleId handle);
  /// False for one that is known and has not been bound in this session.
  [[nodiscard]] bool is_bound(wire::ObjectId object) const;
  [[nodiscard]] bool is_bound(wire::HandleId handle) const;

  /// Tells the files of handles apart; null for a handle that is not known. Good while the handle is open.
  [[nodiscard]] const void* file_of(wire::HandleId handle) const;

  struct Counts {
    std::size_t files = 0;
    std::size_t objects = 0;
    std::size_t handles = 0;
    std::size_t places = 0;
  };
  [[nodiscard]] Counts counts() const { return {files_.size(), objects_.size(), handles_.size(), by_place_.size()}; }

 private:
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    wire::Time birth;
    bool operator==(const Identity&) const = default;
  };
  struct HashIdentity {
    std::size_t operator()(const Identity& identity) const noexcept;
  };
  struct File;
  /// A file system object, with as many ids as were bound to it. Lives while an id or a child refers to it.
  using Entry = std::pair<const Identity, File>;
  struct File {
    Entry* parent = nullptr;  ///< none: `name` is the path that was attached, or the place is not known if it is empty
    base::Bytes name;
    wire::ObjectId id;           ///< one that can be named as a parent; 0 none
    std::uint32_t objects = 0;   ///< ids
    std::uint32_t children = 0;  ///< whose `parent` this is
  };
  struct Object {
    Entry* file = nullptr;
    std::uint32_t bound_in = 0;  ///< the session
    std::uint32_t handles = 0;   ///< open ones, which need the id to be opened again
    bool released = false;       ///< by the client; here for its handles
  };
  struct Handle {
    wire::ObjectId object;
    std::uint32_t flags = 0;
    std::uint32_t bound_in = 0;
  };
  struct Place {
    const Entry* parent = nullptr;
    base::BytesView name;
  };
  struct HashPlace {
    using is_transparent = void;
    std::size_t operator()(const Place& place) const noexcept;
    std::size_t operator()(const Entry* file) const noexcept {
      return (*this)(Place{file->second.parent, file->second.name});
    }
  };
  struct SamePlace {
    using is_transparent = void;
    static Place of(const Entry* file) { return {file->second.parent, file->second.name}; }
    static Place of(const Place& place) { return place; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      const Place left = of(a);
      const Place right = of(b);
      return left.parent == right.parent && left.name == right.name;
    }
  };

  [[nodiscard]] Entry* file_of(wire::ObjectId object) const;
  Entry* bind(wire::ObjectId object, const wire::Attributes& attributes);
  [[nodiscard]] Entry* at(const Entry* parent, base::BytesView name) const;
  void place(Entry& file, Entry* parent, base::BytesView name);
  void take_from_place(Entry& file);
  void drop_if_unused(Entry* file);
  Result<void> restore_one(wire::ObjectId object, Object& known, std::vector<wire::RequestBody>& first);
  [[nodiscard]] static Result<base::Bytes> path_of(const Entry& file);

  std::uint32_t session_ = 1;
  std::unordered_map<Identity, File, HashIdentity> files_;
  std::unordered_map<wire::ObjectId, Object> objects_;
  std::unordered_map<wire::HandleId, Handle> handles_;
  std::unordered_set<Entry*, HashPlace, SamePlace> by_place_;
};

}  // namespace sandbar::client
