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

// Its kernel would let it be nobody else; who may do what, the caller's kernel has decided.
TEST(IdMap, AnAgentOfAUserActsAsThatUserForAll) {
  for (const IdMapMode mode : {IdMapMode::user, IdMapMode::none})
    for (const std::uint32_t uid : {0U, 500U, 1000U, 7U})
      EXPECT_EQ(make_map(mode, 1000, 500).remote_caller({uid, 27, {1, 2}, 022}), (wire::Caller{500, 501, {}, 022}))
          << uid;
}

IdMap ranges(std::vector<IdRange> uids, std::vector<IdRange> gids, std::uint32_t agent = 0) {
  Options options;
  options.id_map = IdMapMode::ranges;
  options.uid_ranges = std::move(uids);
  options.gid_ranges = std::move(gids);
  wire::Hello hello;
  hello.uid = hello.gid = agent;
  return {options, hello};
}

TEST(IdMap, RangesMapTheirOwnIdsAlone) {
  const IdMap map = ranges({{1000, 0, 1}, {5000, 100, 10}, {0, 4294967294, 1}}, {{7, 8, 2}});
  EXPECT_EQ(map.shown_uid(0), 1000U);
  EXPECT_EQ(map.remote_uid(1000), 0U);
  EXPECT_EQ(map.shown_uid(100), 5000U);
  EXPECT_EQ(map.shown_uid(109), 5009U);
  EXPECT_EQ(map.shown_uid(110), IdMap::kNobody);
  EXPECT_EQ(map.shown_uid(99), IdMap::kNobody);
  EXPECT_EQ(map.remote_uid(4999), std::nullopt);
  EXPECT_EQ(map.remote_uid(5009), 109U);
  EXPECT_EQ(map.remote_uid(5010), std::nullopt);
  EXPECT_EQ(map.remote_uid(0), 4294967294U);
  EXPECT_EQ(map.shown_uid(4294967294), 0U);
  EXPECT_EQ(map.remote_uid(4294967294), std::nullopt);
  EXPECT_EQ(map.shown_gid(9), 8U);
  EXPECT_EQ(map.remote_gid(9), std::nullopt);
  EXPECT_EQ(map.shown_uid(IdMap::kNobody), IdMap::kNobody);
  EXPECT_EQ(map.remote_uid(IdMap::kNobody), std::nullopt);
  EXPECT_FALSE(map.changes_nothing());
  EXPECT_TRUE(make_map(IdMapMode::none, 1, 2).changes_nothing());
  EXPECT_TRUE(make_map(IdMapMode::user, 2, 2).changes_nothing());
}

TEST(IdMap, CallersWithoutAnEntryAreNobody) {
  const IdMap map = ranges({{1000, 0, 1}}, {{1000, 0, 1}, {27, 50, 1}});
  EXPECT_EQ(map.remote_caller({1000, 1000, {27, 28}, 0}), (wire::Caller{0, 0, {50}, 0}));
  EXPECT_EQ(map.remote_caller({0, 0, {27}, 0}), (wire::Caller{IdMap::kNobody, IdMap::kNobody, {50}, 0}));
  const IdMap user = ranges({{1000, 3000, 1}}, {}, 3000);
  EXPECT_EQ(user.remote_caller({1000, 1000, {}, 0}), (wire::Caller{3000, 3000, {}, 0}));
  EXPECT_EQ(user.remote_caller({0, 0, {}, 0}).uid, IdMap::kNobody) << "the agent refuses it";
}

TEST(IdMap, NoRangesMapNothing) {
  const IdMap map = ranges({}, {});
  EXPECT_EQ(map.shown_uid(0), IdMap::kNobody);
  EXPECT_EQ(map.remote_gid(0), std::nullopt);
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
