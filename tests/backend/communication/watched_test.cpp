// Whoever looks at a rank's progress sees for whom it waits, and while it waits only.
#include "backend/communication/watched.hpp"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace penstock {
namespace {

constexpr Activity kActs{Activity::Kind::acts};

class WatchedTest : public ::testing::Test {
 protected:
  WatchedTest() {
    auto both = make_in_process(2);
    other = std::move(both[1]);
    watched = make_watched(std::move(both[0]), progress, spare, [this] {
      seen.push_back(progress.activity());
      if (on_wait) on_wait();
    });
    progress.set(kActs);
  }
  SharedProgress progress;
  SpareTime spare;
  std::vector<Activity> seen;  // at the beginning of each wait
  std::function<void()> on_wait;
  std::unique_ptr<Communicator> watched, other;
};

TEST_F(WatchedTest, TellsThePeerOfATransfer) {
  at::Tensor received = at::zeros({3});
  const auto transfer = watched->receive({1, false}, received, 5);
  EXPECT_EQ(progress.activity(), kActs);
  EXPECT_TRUE(seen.empty());
  const auto sent = other->send({0, false}, at::full({3}, 4.0), 5);
  transfer->wait();
  sent->wait();
  EXPECT_EQ(seen, (std::vector<Activity>{{Activity::Kind::waits, 1}}));
  EXPECT_EQ(progress.activity(), kActs);
  EXPECT_TRUE(received.equal(at::full({3}, 4.0)));
}

TEST_F(WatchedTest, TellsSumsAndBarriersAsWaitsForSeveral) {
  at::Tensor mine = at::full({2}, 1.0), theirs = at::full({2}, 2.0);
  std::thread peer([&] {
    other->all_reduce(theirs, {0, 1});
    other->start_all_reduce(theirs, {0, 1})->wait();
    other->barrier();
  });
  watched->all_reduce(mine, {0, 1});
  watched->start_all_reduce(mine, {0, 1})->wait();
  watched->barrier();
  peer.join();
  EXPECT_EQ(seen, std::vector<Activity>(3, {Activity::Kind::waits, -1}));
  EXPECT_EQ(progress.activity(), kActs);
  EXPECT_TRUE(mine.equal(at::full({2}, 6.0)));
}

TEST_F(WatchedTest, LendsItsCoreWhileItWaits) {
  at::Tensor received = at::zeros({3});
  std::unique_ptr<Transfer> sent;
  std::thread work([&] {
    SpareTime::Wanted(spare).await();
    sent = other->send({0, false}, at::full({3}, 4.0), 5);  // until then the wait has no end
  });
  watched->receive({1, false}, received, 5)->wait();
  work.join();
  sent->wait();
  EXPECT_FALSE(spare.is_wanted());
}

TEST_F(WatchedTest, GoesBackToWhatItDidAlsoWhereAWaitFails) {
  progress.set(Activity{});
  at::Tensor received = at::zeros({3});
  const auto transfer = watched->receive({1, false}, received, 5);
  other.reset();
  EXPECT_THROW(transfer->wait(), PeerError);
  EXPECT_EQ(progress.activity(), Activity{});
}

}  // namespace
}  // namespace penstock
