// A run goes on from a state that all ranks have, one completed step back at most, whenever ranks
// are killed; and ends where that would go on for ever.
#include "launch/supervision/recovery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "launch/supervision/rotation.hpp"

namespace penstock {
namespace {

TEST(CommonStep, IsTheOldestOfTheNewestThatAllHave) {
  EXPECT_EQ(common_step({{4, 5}, {4, 5}}), 5);
  EXPECT_EQ(common_step({{4, 5}, {5, 6}}), 5);
  EXPECT_EQ(common_step({{3, 4}, {4, 5}, {5}}), std::nullopt);
  EXPECT_EQ(common_step({{4}, {4, 5}}), 4);
  EXPECT_EQ(common_step({{0}}), 0);
  EXPECT_EQ(common_step({{0}, {}}), std::nullopt);
  EXPECT_EQ(common_step({}), std::nullopt);
  EXPECT_EQ(steps_held({4, -1, 5}), (StepsHeld{4, 5}));
}

TEST(Recovery, GoesOnAfterKillsAndAnErrorButNotTheSameErrorTwice) {
  Recovery recovery;
  const std::vector<StepsHeld> slots{{4, 5}, {4, 5}}, later{{5, 6}, {5, 6}};
  const RankFailure killed{.rank = 1, .step = 5, .action = "1F0", .killed = true};
  const RankFailure error{.rank = 1, .step = 6, .action = "1F0"};
  EXPECT_EQ(recovery.after(killed, {slots}).step, 5);
  EXPECT_EQ(recovery.after(error, {later}).step, 6);
  EXPECT_FALSE(recovery.after(error, {later}).step);
}

TEST(Recovery, EndsAtTheThirdFailureWithoutAStep) {
  Recovery recovery;
  const auto goes_on = [&](int64_t step, const StepsHeld& slots) {
    return recovery.after({.step = step, .killed = true}, {{slots}}).step.has_value();
  };
  EXPECT_TRUE(goes_on(5, {4, 5}));
  EXPECT_TRUE(goes_on(5, {4, 5}));
  EXPECT_TRUE(goes_on(6, {5, 6}));
  EXPECT_TRUE(goes_on(6, {5}));  // its snapshot was not complete: step 5 is made again
  EXPECT_FALSE(goes_on(5, {5}));
}

TEST(Recovery, EndsWhereTheFailureWouldHappenAgain) {
  EXPECT_FALSE(Recovery().after({.final = true}, {{{4, 5}}}).step);
  EXPECT_FALSE(Recovery().after({.killed = true}, {{StepsHeld()}}).step);
}

TEST(Recovery, TakesTheCheckpointOnDiskOnlyWhereSnapshotsAreDamagedOrLostAndNoStepIsCommon) {
  const RankFailure killed{.step = 5, .killed = true};
  const std::vector<StepsHeld> none{{4}, {5}}, other{{4, 5}, {4}};
  const NextEpoch disk = Recovery().after(killed, {none, true, false, 3});
  EXPECT_EQ(disk.step, 3);
  EXPECT_TRUE(disk.from_disk);
  const NextEpoch slot = Recovery().after(killed, {other, true, false, 3});
  EXPECT_EQ(slot.step, 4);
  EXPECT_FALSE(slot.from_disk);
  EXPECT_FALSE(Recovery().after(killed, {none, false, false, 3}).step);
  EXPECT_THAT(Recovery().after(killed, {none, true, false, {}}).reason,
              testing::HasSubstr("damaged"));
}

TEST(Recovery, TakesTheCheckpointWhereTheSnapshotsOfARankAreLostWithItsSupervisor) {
  const RankFailure lost{.rank = 1, .step = 5, .killed = true};
  const NextEpoch disk = Recovery().after(lost, {{{4, 5}, {}}, false, true, 3});
  EXPECT_EQ(disk.step, 3);
  EXPECT_TRUE(disk.from_disk);
  const NextEpoch copy = Recovery().after(lost, {{{4, 5}, {4}}, false, true, 3});
  EXPECT_EQ(copy.step, 4);
  EXPECT_FALSE(copy.from_disk);
  EXPECT_THAT(Recovery().after(lost, {{{4, 5}, {}}, false, true, {}}).reason,
              testing::HasSubstr("lost with it"));
}

TEST(Recovery, ConnectsOnceWhereAllRanksWait) {
  Recovery recovery;
  const RankFailure here{.rank = 1, .step = 5, .action = "1RECV_F0", .standstill = true};
  const RankFailure there{.rank = 0, .step = 5, .action = "0RECV_B0", .standstill = true};
  const RankFailure later{.rank = 0, .step = 6, .action = "0RECV_B0", .standstill = true};
  EXPECT_TRUE(recovery.after(here, {{{4, 5}}}).step);
  EXPECT_TRUE(recovery.after(later, {{{5, 6}}}).step);
  EXPECT_FALSE(recovery.after(there, {{{5, 6}}}).step);
}

/// A run of ranks that do as workers do, a word of memory or an action at a time, in any order, and
/// of a supervisor that writes checkpoints.
class FakeRun {
 public:
  FakeRun(size_t ranks, uint64_t seed) : random_(seed), ranks_(ranks) {
    for (Rank& rank : ranks_) {
      rank.slots.steps[0] = 0;  // the first is taken before anything runs
      begin(rank, 0);
    }
  }

  /// Some rank, or the supervisor, takes its next small step, if it can.
  void tick() {
    if (random_() % 4 == 0) save_word();
    Rank& rank = ranks_[random_() % ranks_.size()];
    if (rank.slot && random_() % 2 == 0) copy_word(rank);
    if (rank.left > 0) {
      --rank.left;
    } else if (!rank.voted && !rank.slot) {
      rank.voted = true;  // only with its copy complete
    } else if (rank.voted && agreed(rank.step)) {
      const std::optional<size_t> slot = slot_for_next(rank.slots);
      if (!slot) return;  // until one is saved
      begin(rank, rank.step + 1);
      rank.slot = slot;
      rank.slots.steps[*slot] = -1;
      for (const size_t idle : idle_slots(rank.slots, *slot)) {
        rank.slots.steps[idle] = -1;
        rank.words[idle] = {};
      }
    }
  }

  /// All ranks are killed, and go on.
  void fail(Recovery& recovery) {
    std::vector<StepsHeld> slots;
    int64_t completed = ranks_[0].step;
    for (const Rank& rank : ranks_) {
      slots.push_back(steps_held(rank.slots.steps));
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
    ASSERT_TRUE(!saving_ || *saving_ <= next);
    for (Rank& rank : ranks_) {
      for (const int64_t word : rank.words[slot_with(rank.slots.steps, next).value()])
        ASSERT_EQ(word, next);
      for (size_t slot = 0; slot < kSlots; ++slot) {
        if (rank.slots.steps[slot] > next) rank.slots.steps[slot] = -1;
        if (rank.slots.steps[slot] < 0) rank.slots.unsaved[slot] = false;
      }
      begin(rank, next);
    }
  }
  int64_t step() const { return ranks_[0].step; }
  const std::vector<int64_t>& saved() const { return saved_; }
  static bool is_due(int64_t step) { return step > 0 && step % 3 != 1; }

 private:
  static constexpr size_t kWords = 3;
  struct Rank {
    int64_t step = 0;            // that it computes; its state is `step` in every word
    int left = 0;                // of the step's compute
    bool voted = false;          // it has come to the agreement
    std::optional<size_t> slot;  // that the state before `step` is copied into
    size_t copied = 0;           // words of it
    RankSlots slots;
    std::array<std::array<int64_t, kWords>, kSlots> words{};
  };

  void begin(Rank& rank, int64_t step) {
    rank.step = step;
    rank.left = static_cast<int>(random_() % 5);
    rank.voted = false;
    rank.slot.reset();
    rank.copied = 0;
  }
  void copy_word(Rank& rank) {
    rank.words[*rank.slot][rank.copied++] = rank.step;
    if (rank.copied < kWords) return;
    rank.slots.steps[*rank.slot] = rank.step;
    rank.slots.unsaved[*rank.slot] = is_due(rank.step);
    rank.slot.reset();
  }
  bool agreed(int64_t step) const {
    return std::ranges::all_of(ranks_, [&](const Rank& rank) {
      return rank.step > step || (rank.step == step && rank.voted);
    });
  }

  void save_word() {
    if (!saving_) {
      std::vector<RankSlots> slots;
      for (const Rank& rank : ranks_) slots.push_back(rank.slots);
      saving_ = step_to_save(slots);
      read_ = 0;
    } else if (read_ < kWords) {
      for (const Rank& rank : ranks_)
        EXPECT_EQ(rank.words[slot_with(rank.slots.steps, *saving_).value()][read_], *saving_);
      ++read_;
    } else {
      saved_.push_back(*saving_);
      for (Rank& rank : ranks_)
        rank.slots.unsaved[slot_with(rank.slots.steps, *saving_).value()] = false;
      saving_.reset();
    }
  }

  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  int64_t furthest_ = -1;          // step of a failure, of one recovery
  std::optional<int64_t> saving_;  // the checkpoint before that step
  size_t read_ = 0;                // words of it
  std::vector<int64_t> saved_;
};

TEST(Recovery, AMillionFaultsNeverLoseMoreThanOneStepOrACheckpoint) {
  constexpr int kRuns = 20, kFaults = 50'000;
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
    std::vector<int64_t> due;  // each is written once, in order
    for (int64_t step = 0; due.size() < fake.saved().size(); ++step)
      if (FakeRun::is_due(step)) due.push_back(step);
    EXPECT_EQ(fake.saved(), due);
    EXPECT_GE(due.back(), fake.step() - 6);
  }
}

}  // namespace
}  // namespace penstock
