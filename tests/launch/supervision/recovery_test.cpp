// A run goes on from a state that all ranks have, one completed step back at most, whenever ranks
// are killed; and ends where that would go on for ever.
#include "launch/supervision/recovery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace penstock {
namespace {

TEST(CommonStep, IsTheOldestOfTheNewestThatAllHave) {
  EXPECT_EQ(common_step({{4, 5}, {4, 5}}), 5);
  EXPECT_EQ(common_step({{4, 5}, {6, 5}}), 5);
  EXPECT_EQ(common_step({{4, 3}, {4, 5}, {-1, 5}}), std::nullopt);  // no run leaves that
  EXPECT_EQ(common_step({{4, -1}, {4, 5}}), 4);
  EXPECT_EQ(common_step({{0, -1}}), 0);
  EXPECT_EQ(common_step({{0, -1}, {-1, -1}}), std::nullopt);
  EXPECT_EQ(common_step({}), std::nullopt);
}

TEST(Recovery, GoesOnAfterKillsAndAnErrorButNotTheSameErrorTwice) {
  Recovery recovery;
  const std::vector<SlotSteps> slots{{4, 5}, {4, 5}}, later{{6, 5}, {6, 5}};
  const RankFailure killed{.rank = 1, .step = 5, .action = "1F0", .killed = true};
  const RankFailure error{.rank = 1, .step = 6, .action = "1F0"};
  EXPECT_EQ(recovery.after(killed, {slots}).step, 5);
  EXPECT_EQ(recovery.after(error, {later}).step, 6);
  EXPECT_FALSE(recovery.after(error, {later}).step);
}

TEST(Recovery, EndsAtTheThirdFailureWithoutAStep) {
  Recovery recovery;
  const auto goes_on = [&](int64_t step, const SlotSteps& slots) {
    return recovery.after({.step = step, .killed = true}, {{slots}}).step.has_value();
  };
  EXPECT_TRUE(goes_on(5, {4, 5}));
  EXPECT_TRUE(goes_on(5, {4, 5}));
  EXPECT_TRUE(goes_on(6, {6, 5}));
  EXPECT_TRUE(goes_on(6, {-1, 5}));  // its snapshot was not complete: step 5 is made again
  EXPECT_FALSE(goes_on(5, {-1, 5}));
}

TEST(Recovery, EndsWhereTheFailureWouldHappenAgain) {
  EXPECT_FALSE(Recovery().after({.final = true}, {{{4, 5}}}).step);
  EXPECT_FALSE(Recovery().after({.killed = true}, {{{-1, -1}}}).step);
}

TEST(Recovery, TakesTheCheckpointOnDiskOnlyWhereSnapshotsAreDamagedAndNoStepIsCommon) {
  const RankFailure killed{.step = 5, .killed = true};
  const std::vector<SlotSteps> none{{4, -1}, {-1, 5}}, other{{4, 5}, {4, -1}};
  const NextEpoch disk = Recovery().after(killed, {none, true, 3});
  EXPECT_EQ(disk.step, 3);
  EXPECT_TRUE(disk.from_disk);
  const NextEpoch slot = Recovery().after(killed, {other, true, 3});
  EXPECT_EQ(slot.step, 4);
  EXPECT_FALSE(slot.from_disk);
  EXPECT_FALSE(Recovery().after(killed, {none, false, 3}).step);
  EXPECT_THAT(Recovery().after(killed, {none, true, {}}).reason, testing::HasSubstr("damaged"));
}

TEST(Recovery, ConnectsOnceWhereAllRanksWait) {
  Recovery recovery;
  const RankFailure here{.rank = 1, .step = 5, .action = "1RECV_F0", .standstill = true};
  const RankFailure there{.rank = 0, .step = 5, .action = "0RECV_B0", .standstill = true};
  const RankFailure later{.rank = 0, .step = 6, .action = "0RECV_B0", .standstill = true};
  EXPECT_TRUE(recovery.after(here, {{{4, 5}}}).step);
  EXPECT_TRUE(recovery.after(later, {{{6, 5}}}).step);
  EXPECT_FALSE(recovery.after(there, {{{6, 5}}}).step);
}

/// A run of ranks that do as workers do, a word of memory or an action at a time, in any order.
class FakeRun {
 public:
  FakeRun(size_t ranks, uint64_t seed) : random_(seed), ranks_(ranks) {
    for (Rank& rank : ranks_) {
      rank.slots[0] = 0;  // the first is taken before anything runs
      begin(rank, 0, kWords);
    }
  }

  /// Some rank takes its next small step, if it can.
  void tick() {
    Rank& rank = ranks_[random_() % ranks_.size()];
    if (rank.copied < kWords && random_() % 2 == 0) copy_word(rank);
    if (rank.left > 0) {
      --rank.left;
    } else if (!rank.voted && rank.copied == kWords) {
      rank.voted = true;  // only with its copy complete
    } else if (rank.voted && agreed(rank.step)) {
      rank.slots[slot_of(rank.step + 1)] = -1;
      begin(rank, rank.step + 1, 0);
    }
  }

  /// All ranks are killed, and go on.
  void fail(Recovery& recovery) {
    std::vector<SlotSteps> slots;
    int64_t completed = ranks_[0].step;
    for (const Rank& rank : ranks_) {
      slots.push_back(rank.slots);
      completed = std::min(completed, rank.step);
    }
    const int64_t at = ranks_[random_() % ranks_.size()].step;
    if (const auto step = recovery.after({.step = at, .killed = true}, {slots}).step) {
      ASSERT_EQ(step, common_step(slots));
      furthest_ = std::max(furthest_, at);
    } else {
      ASSERT_LE(at, furthest_);
      recovery = Recovery();
      furthest_ = -1;
    }
    const int64_t next = common_step(slots).value();
    ASSERT_GE(next, completed - 1);
    ASSERT_LE(next, completed);
    for (Rank& rank : ranks_) {
      for (const int64_t word : rank.words[slot_of(next)]) ASSERT_EQ(word, next);
      for (int64_t& slot : rank.slots) slot = slot > next ? -1 : slot;
      begin(rank, next, kWords);
    }
  }
  int64_t step() const { return ranks_[0].step; }

 private:
  static constexpr size_t kWords = 3;
  struct Rank {
    int64_t step = 0;    // that it computes; its state is `step` in every word
    int left = 0;        // of the step's compute
    bool voted = false;  // it has come to the agreement
    size_t copied = 0;   // words of the state before `step`
    SlotSteps slots{-1, -1};
    std::array<std::array<int64_t, kWords>, 2> words{};
  };

  void begin(Rank& rank, int64_t step, size_t copied) {
    rank.step = step;
    rank.left = static_cast<int>(random_() % 5);
    rank.voted = false;
    rank.copied = copied;
  }
  void copy_word(Rank& rank) {
    rank.words[slot_of(rank.step)][rank.copied++] = rank.step;
    if (rank.copied == kWords) rank.slots[slot_of(rank.step)] = rank.step;
  }
  bool agreed(int64_t step) const {
    return std::ranges::all_of(ranks_, [&](const Rank& rank) {
      return rank.step > step || (rank.step == step && rank.voted);
    });
  }

  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  int64_t furthest_ = -1;  // step of a failure, of one recovery
};

TEST(Recovery, MillionsOfFaultsNeverLoseMoreThanOneStep) {
  constexpr int kRuns = 20, kFaults = 100'000;
  for (int run = 0; run < kRuns; ++run) {
    std::mt19937_64 random(static_cast<uint64_t>(run));
    const size_t ranks = 1 + random() % 5;
    FakeRun fake(ranks, static_cast<uint64_t>(run));
    Recovery recovery;
    for (int fault = 0; fault < kFaults; ++fault) {
      for (uint64_t i = random() % (25 * ranks); i > 0; --i) fake.tick();
      ASSERT_NO_FATAL_FAILURE(fake.fail(recovery)) << "run " << run << ", fault " << fault;
    }
    EXPECT_GT(fake.step(), kFaults / 10);
  }
}

}  // namespace
}  // namespace penstock
