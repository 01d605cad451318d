// SPDX-License-Identifier: Apache-2.0
#include "base/one_shot.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace sandbar::base {
namespace {

/// What a OneShot<int> was told, in order.
struct Log {
  std::vector<int> values;
  std::vector<Errc> errors;
  OneShot<int> completion() {
    return [this](Result<int> result) {
      if (result.ok())
        values.push_back(*result);
      else
        errors.push_back(result.error().code);
    };
  }
};

TEST(OneShot, RunsOnce) {
  Log log;
  {
    OneShot<int> done = log.completion();
    EXPECT_TRUE(done);
    done(1);
    EXPECT_FALSE(done);
    done(2);
    done(make_error(Errc::limit, ""));
  }
  EXPECT_EQ(log.values, std::vector<int>{1});
  EXPECT_TRUE(log.errors.empty());
}

TEST(OneShot, DroppedIsCancelled) {
  Log log;
  { OneShot<int> done = log.completion(); }
  EXPECT_TRUE(log.values.empty());
  EXPECT_EQ(log.errors, std::vector<Errc>{Errc::cancelled});
}

TEST(OneShot, MovesItsDuty) {
  Log log;
  {
    OneShot<int> first = log.completion();
    OneShot<int> second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is promised
    first(1);             // an empty one does nothing
    EXPECT_TRUE(log.values.empty());
    second(2);
  }
  EXPECT_EQ(log.values, std::vector<int>{2});
  EXPECT_TRUE(log.errors.empty());
}

TEST(OneShot, AssigningOverOneDropsIt) {
  Log first;
  Log second;
  OneShot<int> done = first.completion();
  done = second.completion();
  EXPECT_EQ(first.errors, std::vector<Errc>{Errc::cancelled});
  OneShot<int>& same = done;
  done = std::move(same);
  EXPECT_TRUE(done);
  done(3);
  EXPECT_EQ(second.values, std::vector<int>{3});
}

TEST(OneShot, AnEmptyOneIsSilent) {
  OneShot<int> none;
  EXPECT_FALSE(none);
  none(1);
}

TEST(OneShot, MayBeReplacedWhileItRuns) {
  Log log;
  OneShot<int> done;
  done = [&](Result<int> result) {
    EXPECT_FALSE(done);
    done = log.completion();
    EXPECT_EQ(*result, 1);
  };
  done(1);
  EXPECT_TRUE(done);
  done(2);
  EXPECT_EQ(log.values, std::vector<int>{2});
}

TEST(OneShot, FreesItsStateWhenItHasRun) {
  auto state = std::make_shared<int>(1);
  OneShot<std::unique_ptr<int>> done = [state](Result<std::unique_ptr<int>> result) { EXPECT_EQ(**result, 5); };
  EXPECT_EQ(state.use_count(), 2);
  done(std::make_unique<int>(5));
  EXPECT_EQ(state.use_count(), 1);
}

TEST(OneShot, OfNothing) {
  int runs = 0;
  OneShot<void> done = [&](Result<void> result) {
    EXPECT_TRUE(result.ok());
    ++runs;
  };
  done(Result<void>());
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace sandbar::base
