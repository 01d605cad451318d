// SPDX-License-Identifier: Apache-2.0
#include "vfs/id_map.h"

#include "unit/vfs/mount.h"
#include "wire/limits.h"

namespace sandbar::vfs {
namespace {

IdMap make_map(IdMapMode mode, std::uint32_t local, std::uint32_t remote) {
  Options options;
  options.id_map = mode;
  options.uid = local;
  options.gid = local + 1;
  wire::Hello agent;
  agent.uid = remote;
  agent.gid = remote + 1;
  return {options, agent};
}

TEST(IdMap, NoneChangesNothing) {
  const IdMap map = make_map(IdMapMode::none, 1000, 0);
  for (const std::uint32_t id : {0U, 1U, 1000U, 1001U, 65534U}) {
    EXPECT_EQ(map.shown_uid(id), id);
    EXPECT_EQ(map.shown_gid(id), id);
    EXPECT_EQ(map.remote_uid(id), id);
    EXPECT_EQ(map.remote_gid(id), id);
  }
}

TEST(IdMap, UserPairsTheMountingUserWithTheAgents) {
  const IdMap map = make_map(IdMapMode::user, 1000, 500);
  EXPECT_EQ(map.shown_uid(500), 1000U);
  EXPECT_EQ(map.remote_uid(1000), 500U);
  EXPECT_EQ(map.shown_gid(501), 1001U);
  EXPECT_EQ(map.remote_gid(1001), 501U);
  EXPECT_EQ(map.shown_uid(0), 0U);
  EXPECT_EQ(map.remote_uid(0), 0U);
}

TEST(IdMap, ShadowedIdsAreNobodysAndCannotBeGiven) {
  const IdMap map = make_map(IdMapMode::user, 1000, 0);
  EXPECT_EQ(map.shown_uid(1000), IdMap::kNobody);
  EXPECT_EQ(map.remote_uid(0), std::nullopt);
  EXPECT_EQ(map.shown_gid(1001), IdMap::kNobody);
  EXPECT_EQ(map.remote_gid(1), std::nullopt);
}

TEST(IdMap, APairOfEqualIdsShadowsNothing) {
  const IdMap map = make_map(IdMapMode::user, 1000, 1000);
  for (const std::uint32_t id : {0U, 1000U, 1001U, 5U}) {
    EXPECT_EQ(map.shown_uid(id), id);
    EXPECT_EQ(map.remote_uid(id), id);
  }
}

TEST(IdMap, CallersAreMappedWithTheirGroups) {
  const IdMap map = make_map(IdMapMode::user, 1000, 0);
  const wire::Caller mapped = map.remote_caller({1000, 1001, {1001, 27, 1}, 022});
  EXPECT_EQ(mapped.uid, 0U);
  EXPECT_EQ(mapped.gid, 1U);
  EXPECT_EQ(mapped.groups, (std::vector<std::uint32_t>{1, 27}));  // the shadowed group 1 is left out
  EXPECT_EQ(mapped.umask, 022U);
  EXPECT_EQ(map.remote_caller({0, 1, {}, 0}).uid, IdMap::kNobody);
  EXPECT_EQ(map.remote_caller({0, 1, {}, 0}).gid, IdMap::kNobody);
}

TEST(IdMap, NoMoreGroupsThanTheProtocolTakes) {
  const IdMap map = make_map(IdMapMode::none, 0, 0);
  Caller caller;
  caller.groups.assign(wire::kMaxGroups, 5);
  EXPECT_EQ(map.remote_caller(caller).groups.size(), wire::kMaxGroups);
  caller.groups.push_back(6);
  EXPECT_EQ(map.remote_caller(caller).groups.size(), wire::kMaxGroups);
}

class IdMapOnMount : public Mount {};

TEST_F(IdMapOnMount, OwnersAreMappedBothWays) {
  remote.hello().uid = 500;
  remote.hello().gid = 501;
  Options options;
  options.uid = 1000;
  options.gid = 1001;
  open(options);
  caller = {1000, 1001, {}, 0};
  auto created = create(kRootNode, "f", O_WRONLY | O_CREAT);
  ASSERT_EQ(created.os_errno(), 0);
  EXPECT_EQ(remote.tree.at("/f")->attributes.uid, 500U);
  EXPECT_EQ(remote.tree.at("/f")->attributes.gid, 501U);
  const Entry& entry = created.result()->entry;
  EXPECT_EQ(entry.attributes.uid, 1000U);
  EXPECT_EQ(entry.attributes.gid, 1001U);

  Changes changes;
  changes.uid = 7;
  changes.gid = 1001;
  EXPECT_EQ(change(entry.node, changes).result()->attributes.uid, 7U);
  EXPECT_EQ(remote.tree.at("/f")->attributes.uid, 7U);
  EXPECT_EQ(remote.tree.at("/f")->attributes.gid, 501U);
  changes.uid = 500;  // the agent's own number means nobody here
  EXPECT_EQ(change(entry.node, changes).os_errno(), EINVAL);
  EXPECT_EQ(remote.tree.at("/f")->attributes.uid, 7U);

  // Requests through the handle act as who opened it.
  write(created.result()->opened.file, 0, "x");
  ASSERT_EQ(remote.asked.back().first, "write");
  EXPECT_EQ(remote.asked.back().second.caller->uid, 500U);
}

}  // namespace
}  // namespace sandbar::vfs
