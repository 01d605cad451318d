// SPDX-License-Identifier: Apache-2.0
// Listings of directories.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/thread_check.h"
#include "vfs/remote_file_system.h"

namespace sandbar::vfs {
namespace {

/// Pages, bytes: the first holds most directories whole; a large directory soon takes few round trips.
constexpr std::uint32_t kFirstPage = 256 * 1024;
constexpr std::uint32_t kLargestPage = 1024 * 1024;

}  // namespace

struct RemoteFileSystem::Listing {
  FileId directory;
  std::uint64_t cookie = 0;
  bool attributes = false;
  ListSink* sink = nullptr;  // the caller's, until the operation is finished
  Caller caller;
};

OperationId RemoteFileSystem::list(const Caller& caller, FileId id, std::uint64_t cookie, bool attributes,
                                   ListSink& sink, Done<void> done) {
  SANDBAR_ON_LOOP(loop_);
  const OpenFile* file = files_.find(id);
  if (file == nullptr) return refuse(std::move(done), EBADF, "list");
  if (!file->directory) return refuse(std::move(done), ENOTDIR, "list");
  auto operation = begin(std::move(done), {.nodes = {}, .files = {id}});
  operation->runs_on = attributes;
  Listing listing{id, cookie, attributes, &sink, caller};
  loop_.post([this, alive = std::weak_ptr(alive_), operation, listing = std::move(listing)] {
    if (!alive.expired() && !operation->finished) run_listing(operation, listing);
  });
  return operation->id;
}

void RemoteFileSystem::run_listing(const OperationPtr<void>& operation, const Listing& listing) {
  OpenFile& file = files_.pinned(listing.directory);
  // rewinddir(3) must show what changed: the start is always asked for.
  const auto position = listing.cookie == 0 ? std::nullopt : file.page.position(listing.cookie, listing.attributes);
  if (position && serve(file, listing, *position)) return finish<void>(*operation, {});
  fetch_page(operation, listing);
}

void RemoteFileSystem::fetch_page(const OperationPtr<void>& operation, const Listing& listing) {
  OpenFile& file = files_.pinned(listing.directory);
  const bool onward = listing.cookie != 0 && file.page_bytes != 0;
  file.page_bytes = onward ? std::min(file.page_bytes * 2, kLargestPage) : kFirstPage;
  PageRequest page{
      .cookie = listing.cookie, .max_bytes = std::min(body_limit(), file.page_bytes), .attributes = listing.attributes};
  if (page.attributes) {
    page.reserved = ids_for_page(page.max_bytes);
    page.first_object = objects_.reserve(page.reserved);
  }
  const wire::List request{file.handle, page.cookie, page.max_bytes, page.attributes, page.first_object};
  ask(operation, context(listing.caller), request, {}, [this, operation, listing, page](AnswerTo<wire::List> answer) {
    if (!answer) return finish<void>(*operation, std::move(answer).error());
    take_page(operation, listing, parse_page(page, answer->body));
  });
}

void RemoteFileSystem::take_page(const OperationPtr<void>& operation, const Listing& listing, Result<ListPage> page) {
  if (operation->finished) {
    if (page) drop_objects(*page);
    return;
  }
  if (!page) return finish<void>(*operation, std::move(page).error());
  OpenFile& file = files_.pinned(listing.directory);
  drop_page(file);
  file.page = std::move(*page);
  if (!file.page.items.empty()) serve(file, listing, 0);
  finish<void>(*operation, {});
}

bool RemoteFileSystem::serve(OpenFile& file, const Listing& listing, std::size_t position) {
  ListPage& page = file.page;
  const std::uint64_t device = inodes_.find(file.node)->identity.device;
  bool offered = false;
  for (std::size_t i = position; i < page.items.size(); ++i) {
    ListPage::Item& item = page.items[i];
    Listed listed{.name = item.entry.name,
                  .cookie = item.entry.cookie,
                  .inode = inodes_.shown_inode(device, item.entry.inode),
                  .type = item.entry.type,
                  .entry = std::nullopt};
    Node* node = nullptr;
    if (listing.attributes && item.entry.attributes) {
      node = node_of(file.node, page, item);
      // Handed on before and forgotten since: only the agent can bind it again.
      if (node == nullptr) return offered;
      listed.entry = entry(*node);
      listed.inode = node->shown_inode;
      listed.type = node->type();
    }
    offered = true;
    const bool taken = listing.sink->add(listed);
    if (taken && node != nullptr) inodes_.add_lookup(*node);
    if (taken && item.held) inodes_.unpin(std::exchange(item.held, {}));
    if (!taken) return true;
    page.next = i + 1;
  }
  return offered;
}

Node* RemoteFileSystem::node_of(NodeId directory, ListPage& page, ListPage::Item& item) {
  if (item.held) return inodes_.find(item.held);
  if (!std::exchange(item.owned, false)) return inodes_.known(*item.entry.attributes, directory);
  Node& node = inodes_.adopt(*item.entry.attributes, page.object_of(item), directory, item.entry.name);
  inodes_.pin(node);
  item.held = node.id;
  return &node;
}

void RemoteFileSystem::drop_page(OpenFile& file) {
  const ListPage page = std::exchange(file.page, {});
  drop_objects(page);
  for (const ListPage::Item& item : page.items)
    if (item.held) inodes_.unpin(item.held);
}

void RemoteFileSystem::drop_objects(const ListPage& page) {
  for (const ListPage::Item& item : page.items)
    if (item.owned) objects_.release(page.object_of(item));
}

}  // namespace sandbar::vfs
