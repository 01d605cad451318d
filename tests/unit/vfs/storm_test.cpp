// SPDX-License-Identifier: Apache-2.0
// Random operations with answers in random order, beside a model of what the kernel knows.
#include <map>
#include <random>

#include "unit/vfs/mount.h"

namespace sandbar::vfs {
namespace {

using Hold = fakes::FakeRemote::Hold;

class Storm : public Mount, public testing::WithParamInterface<std::uint32_t> {
 protected:
  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); }
  std::string name() { return "/f" + std::to_string(pick(6)); }

  /// The kernel's side: lookups it holds, and which object each node is.
  void hold_lookup(NodeId node, std::uint64_t inode) {
    ++lookups[node];
    const auto [at, fresh] = inodes.emplace(node, inode);
    EXPECT_EQ(at->second, inode) << "a node became another object";
  }
  void keep(const Pending<Entry>& pending, std::vector<Pending<Entry>>& into) { into.push_back(pending); }

  void collect() {
    std::erase_if(entries, [&](Pending<Entry>& pending) {
      if (!pending.ready()) return false;
      if (pending.result().ok()) hold_lookup(pending.result()->node, pending.result()->attributes.inode);
      return true;
    });
    std::erase_if(created, [&](Pending<Created>& pending) {
      if (!pending.ready()) return false;
      if (!pending.result().ok()) return true;
      hold_lookup(pending.result()->entry.node, pending.result()->entry.attributes.inode);
      files.push_back(pending.result()->opened.file);
      return true;
    });
    std::erase_if(opened, [&](Pending<Opened>& pending) {
      if (pending.ready() && pending.result().ok()) files.push_back(pending.result()->file);
      return pending.ready();
    });
    std::erase_if(lists, [&](auto& each) {
      if (!each.first.ready()) return false;
      for (const Listed& listed : each.second->taken)
        if (listed.entry) hold_lookup(listed.entry->node, listed.entry->attributes.inode);
      return true;
    });
  }

  void forget_some() {
    if (lookups.empty()) return;
    auto at = std::next(lookups.begin(), static_cast<std::ptrdiff_t>(pick(lookups.size())));
    const std::uint64_t count = 1 + pick(at->second);
    fs->forget(at->first, count);
    at->second -= count;
    if (at->second == 0) {
      inodes.erase(at->first);
      lookups.erase(at);
    }
  }
  void change_there() {
    const std::string path = name();
    if (remote.tree.at(path)) {
      if (pick(2) == 0) remote.tree.next_inode = remote.tree.at(path)->attributes.inode;  // reused at once
      remote.tree.take(path);
    }
    remote.tree.put_file(path, "x");
  }
  void use_a_node() {
    if (lookups.empty()) return;
    const auto at = std::next(lookups.begin(), static_cast<std::ptrdiff_t>(pick(lookups.size())));
    if (pick(2) == 0) {
      opened.push_back(start_open(at->first, O_RDWR));
      ids.push_back(opened.back().id);
    } else {
      stats.push_back(start_stat(at->first));
    }
  }
  void release_one() {
    if (files.empty()) return;
    const std::size_t at = pick(files.size());
    if (pick(2) == 0) writes.push_back(start_write(files[at], 0, "w"));
    fs->release(files[at], std::nullopt);
    files.erase(files.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void start_listing() {
    lists.emplace_back(Pending<void>{}, std::make_unique<FakeSink>(1 + pick(9)));
    const std::uint64_t cookie = pick(2) == 0 ? 0 : 1 + pick(20);
    lists.back().first = start_list(directory, cookie, pick(4) != 0, *lists.back().second);
    ids.push_back(lists.back().first.id);
  }
  void look_up() {
    entries.push_back(start_lookup(kRootNode, name().substr(1)));
    ids.push_back(entries.back().id);
  }
  void create_one() {
    created.push_back(start_create(kRootNode, name().substr(1), O_RDWR));
    ids.push_back(created.back().id);
  }

  void one_step() {
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
        return look_up();
      case 3:
        return create_one();
      case 4:
      case 5:
        return forget_some();
      case 6:
        return use_a_node();
      case 7:
        return release_one();
      case 8:
        return start_listing();
      case 9:
        return change_there();
      case 10:
        if (!ids.empty() && pick(3) == 0) fs->interrupt(ids[pick(ids.size())], true);
        return;
      default:
        remote.hold = std::vector{Hold::none, Hold::answers, Hold::requests}[pick(3)];
        return;
    }
  }
  void let_some_go() {
    if (remote.held() > 0 && pick(2) == 0) remote.let_go(pick(remote.held()));
    for (std::size_t i = pick(4); i > 0; --i) loop.step();
    collect();
  }
  void let_all_go() {
    remote.hold = Hold::none;
    do {
      remote.let_all_go();
    } while (loop.drain() > 0 || remote.held() > 0);
    collect();
  }

  std::mt19937 random;
  FileId directory;
  std::map<NodeId, std::uint64_t> lookups;
  std::map<NodeId, std::uint64_t> inodes;
  std::vector<FileId> files;
  std::vector<OperationId> ids;
  std::vector<Pending<Entry>> entries;
  std::vector<Pending<Created>> created;
  std::vector<Pending<Opened>> opened;
  std::vector<Pending<Stat>> stats;
  std::vector<Pending<std::uint64_t>> writes;
  std::vector<std::pair<Pending<void>, std::unique_ptr<FakeSink>>> lists;
};

TEST_P(Storm, NoNodeIsLostOrLeakedAndEachObjectIsReleasedOnce) {
  random.seed(GetParam());
  for (int i = 0; i < 4; ++i) remote.tree.put_file("/f" + std::to_string(i), "x");
  remote.entries_per_page = 1 + pick(6);
  remote.tree.births = GetParam() % 4 != 0;
  open();
  directory = open_directory(kRootNode);
  for (int step = 0; step < 3000; ++step) {
    one_step();
    let_some_go();
    if (step % 500 != 499) continue;
    let_all_go();
    EXPECT_EQ(fs->counts().operations, 0U);
    // Each node that the kernel counts is known, and the object is still bound.
    for (const auto& [node, count] : lookups) EXPECT_EQ(stat(node).os_errno(), 0);
  }
  let_all_go();
  for (const FileId file : files) fs->release(file, std::nullopt);
  for (const auto& [node, count] : lookups) fs->forget(node, count);
  release(directory);
  expect_clean();
}

INSTANTIATE_TEST_SUITE_P(Seeds, Storm, testing::Range(1U, 41U));

class DenseStorm : public Storm {};

TEST_P(DenseStorm, LookupsAndForgetsOfOneFile) {
  random.seed(GetParam());
  remote.tree.put_file("/f0", "x");
  open();
  for (int step = 0; step < 2000; ++step) {
    remote.hold = pick(2) == 0 ? Hold::answers : Hold::none;
    if (pick(3) != 0)
      entries.push_back(start_lookup(kRootNode, "f0"));
    else
      forget_some();
    let_some_go();
    std::uint64_t held = 0;
    for (const auto& [node, count] : lookups) held += count;
    EXPECT_LE(lookups.size(), 1U);  // one object is never two nodes
    EXPECT_EQ(fs->counts().nodes, held > 0 ? 2U : 1U);
  }
  let_all_go();
  for (const auto& [node, count] : lookups) fs->forget(node, count);
  expect_clean();
}

INSTANTIATE_TEST_SUITE_P(Seeds, DenseStorm, testing::Range(1U, 9U));

}  // namespace
}  // namespace sandbar::vfs
