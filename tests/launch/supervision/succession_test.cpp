// Ranks of lost supervisors go to spares, with snapshots that somebody has: their own, or those of
// ranks that are alike.
#include "launch/supervision/succession.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <ostream>
#include <random>
#include <utility>

#include "launch/supervision/rotation.hpp"

namespace penstock {

void PrintTo(const Handover& one, std::ostream* out) {
  *out << "{" << one.from << ", " << one.held << ", " << one.to << ", " << one.rank << "}";
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

const Assignment kThree{{0, 0}, {1, 1}, {2, 2}};

TEST(MayGoOn, IsTrueOfOneSideOfAnyPartitionAtMost) {
  for (unsigned size = 1; size <= 6; ++size) {
    std::set<int> all;
    for (unsigned i = 0; i < size; ++i) all.insert(static_cast<int>(3 * i));
    for (unsigned sides = 0; sides < 1U << size; ++sides) {
      std::set<int> one, other;
      for (unsigned i = 0; i < size; ++i)
        (sides >> i & 1U ? one : other).insert(static_cast<int>(3 * i));
      EXPECT_NE(may_go_on(all, one), may_go_on(all, other));
    }
  }
  EXPECT_TRUE(may_go_on({0, 1, 2, 3}, {0, 3}));
  EXPECT_FALSE(may_go_on({0, 1, 2, 3}, {1, 2}));
  EXPECT_TRUE(may_go_on({0, 1, 2}, {1, 2}));
  EXPECT_FALSE(may_go_on({0, 1, 2}, {0, 5, 6}));  // who has come since does not count
}

TEST(Assign, LeavesRanksWhereTheyAreAndGivesThoseOfLostProcessesToSparesInOrder) {
  EXPECT_EQ(assign(kThree, {0, 1, 2, 3}), kThree);
  EXPECT_EQ(assign(kThree, {0, 2, 3, 4}), (Assignment{{0, 0}, {1, 3}, {2, 2}}));
  EXPECT_EQ(assign(kThree, {0, 3, 4}), (Assignment{{0, 0}, {1, 3}, {2, 4}}));
  EXPECT_EQ(assign({{0, 0}, {1, 3}, {2, 2}}, {0, 2, 4}), (Assignment{{0, 0}, {1, 4}, {2, 2}}));
}

TEST(Assign, NeedsASpareForEach) {
  EXPECT_EQ(assign(kThree, {0, 2}), std::nullopt);
  EXPECT_EQ(assign(kThree, {0, 3}), std::nullopt);
}

TEST(AssignAnew, NumbersRanksInTheOrderOfProcessesAndLeavesTheLastAsSpares) {
  EXPECT_EQ(assign_anew(2, {0, 2, 5}), (Assignment{{0, 0}, {1, 2}}));
  EXPECT_EQ(assign_anew(3, {1, 2, 5}), (Assignment{{0, 1}, {1, 2}, {2, 5}}));
}

TEST(PartnerOf, IsTheNextProcessOfOneMachine) {
  const std::map<int, int> machines{{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  EXPECT_EQ(partner_of(0, kThree, machines), 1);
  EXPECT_EQ(partner_of(2, kThree, machines), 0);
  EXPECT_EQ(partner_of(1, {{0, 0}, {1, 1}, {2, 3}}, machines), 3);
  EXPECT_EQ(partner_of(0, {{0, 0}}, machines), std::nullopt);
}

TEST(PartnerOf, IsAtTheSamePlaceOfTheNextMachine) {
  const std::map<int, int> machines{{0, 0}, {1, 0}, {2, 2}, {3, 2}, {4, 4}};
  const Assignment two{{0, 0}, {1, 1}, {2, 2}, {3, 3}}, three{{0, 0}, {1, 1}, {2, 2}, {3, 4}};
  EXPECT_EQ(partner_of(0, two, machines), 2);
  EXPECT_EQ(partner_of(1, two, machines), 3);
  EXPECT_EQ(partner_of(2, two, machines), 0);
  EXPECT_EQ(partner_of(3, two, machines), 1);
  EXPECT_EQ(partner_of(1, three, machines), 2);
  EXPECT_EQ(partner_of(2, three, machines), 4);
  EXPECT_EQ(partner_of(4, three, machines), 0);
}

TEST(StepsOfRanks, AreThoseOfAnyHolder) {
  const HeldByProcess holders{{0, {{0, {4, 5}}}}, {1, {{1, {5, 6}}, {0, {6}}}}, {3, {{3, {7}}}}};
  EXPECT_THAT(steps_of_ranks(holders, 4, 0),
              ElementsAre(StepsHeld{4, 5, 6}, StepsHeld{5, 6}, StepsHeld{}, StepsHeld{7}));
}

TEST(StepsOfRanks, AreAnothersWhereNoneOfTheirOwnIsLeft) {
  const HeldByProcess holders{{0, {{0, {4, 5}}}}, {1, {{1, {4}}}}, {3, {{3, {4, 5}}}}};
  EXPECT_THAT(steps_of_ranks(holders, 4, 2),
              ElementsAre(StepsHeld{4, 5}, StepsHeld{4}, StepsHeld{4, 5}, StepsHeld{4, 5}));
}

TEST(Handovers, AreOfWhatSomebodyLacks) {
  const HeldByProcess copied{{0, {{0, {4, 5}}, {1, {5}}}}, {2, {{2, {4, 5}}}}};
  const Assignment next{{0, 0}, {1, 3}, {2, 2}};
  EXPECT_THAT(handovers(copied, next, 5, 0), Optional(ElementsAre(Handover{0, 1, 3, 1})));
  EXPECT_EQ(handovers(copied, next, 4, 0), std::nullopt);
  const HeldByProcess there{{0, {{0, {5}}}}, {2, {{2, {5}}}}, {3, {{1, {5}}}}};
  EXPECT_THAT(handovers(there, next, 5, 0), Optional(IsEmpty()));
}

TEST(Handovers, AreOfARanksOwnSnapshotBeforeOneOfItsReplica) {
  const Assignment next{{0, 0}, {1, 4}, {2, 2}, {3, 3}};
  HeldByProcess holders{{0, {{0, {5}}}}, {2, {{2, {5}}}}, {3, {{3, {5}}}}};
  EXPECT_THAT(handovers(holders, next, 5, 2), Optional(ElementsAre(Handover{3, 3, 4, 1})));
  holders[3][1] = {5};
  EXPECT_THAT(handovers(holders, next, 5, 2), Optional(ElementsAre(Handover{3, 1, 4, 1})));
}

/// Supervisors, each with a rank, which keep copies of each other's snapshots as workers and
/// supervisors do, a small step at a time in any order; a new spare comes for each that is lost.
class FakeFleet {
 public:
  FakeFleet(int ranks, int machines, uint64_t seed) : random_(seed), machines_count_(machines) {
    for (int rank = 0; rank < ranks; ++rank) {
      assignment_[rank] = add_process();
      Process& process = processes_[assignment_[rank]];
      process.own.steps[0] = 0;
      begin(process, 0);
    }
  }

  void tick() {
    auto owner = assignment_.begin();
    std::advance(owner, random_() % assignment_.size());
    Process& process = processes_.at(owner->second);
    const auto chance = random_() % 4;
    if (chance == 0 && process.slot) {
      complete(process.own, *std::exchange(process.slot, std::nullopt), process.step);
    } else if (chance == 1) {
      copy(owner->first, process);
    } else if (!process.voted && !process.slot && process.copied >= process.step) {
      process.voted = true;
    } else if (process.voted && agreed(process.step)) {
      const size_t slot = slot_for_next({process.own.steps, {}}).value();
      begin(process, process.step + 1);
      process.own.steps[slot] = -1;
      process.slot = slot;
    }
  }

  /// A process is lost with all that it has, and the others go on.
  void lose() {
    const auto [rank, victim] = *std::next(assignment_.begin(), random_() % assignment_.size());
    processes_.erase(victim);
    add_process();
    std::set<int> alive;
    for (const auto& [number, process] : processes_) alive.insert(number);
    int64_t completed = INT64_MAX;
    HeldByProcess holders;
    for (const auto& [number, process] : processes_) {
      for (const auto& [kept, copies] : process.copies)
        holders[number][kept] = steps_held(copies.steps);
      if (process.step < 0) continue;
      completed = std::min(completed, process.step);
    }
    for (const auto& [one, owner] : assignment_)
      if (owner != victim) holders[owner][one].merge(steps_held(processes_[owner].own.steps));
    const auto step =
        common_step(steps_of_ranks(holders, static_cast<int>(assignment_.size()), /*alike=*/0));
    ASSERT_TRUE(step);
    ASSERT_GE(*step, completed - 1);
    const Assignment next = assign(assignment_, alive).value();
    ASSERT_NE(next.at(rank), victim);
    const auto wanted = handovers(holders, next, *step, /*alike=*/0);
    ASSERT_TRUE(wanted);
    for (const Handover& one : *wanted) {
      const Store& from = processes_[one.from].copies[one.held];
      ASSERT_EQ(from.words[slot_with(from.steps, *step).value()], *step);
      processes_[one.to].own.steps[0] = processes_[one.to].own.words[0] = *step;
    }
    assignment_ = next;
    for (auto& [number, process] : processes_) {
      for (auto& [kept, copies] : process.copies) forget_after(copies, *step);
      forget_after(process.own, *step);
      if (process.step < 0 && number != next.at(rank)) continue;
      ASSERT_EQ(process.own.words[slot_with(process.own.steps, *step).value()], *step);
      begin(process, *step);
    }
  }
  int64_t step() const { return processes_.at(assignment_.at(0)).step; }

 private:
  struct Store {
    SlotSteps steps{-1, -1, -1};
    std::array<int64_t, kSlots> words{};  // the state before a step is that step
  };
  struct Process {
    int64_t step = -1;                               // that its rank computes; -1: it is a spare
    bool voted = false;                              // it has come to the agreement
    int64_t copied = -1;                             // the step whose snapshot its partner has
    std::optional<size_t> slot;                      // that a snapshot is being written to
    std::optional<std::pair<size_t, int64_t>> sent;  // to that slot of its partner
    Store own;
    std::map<int, Store> copies;  // by rank
  };

  int add_process() {
    const int number = next_++;
    processes_[number];
    machines_[number] = number % machines_count_;
    return number;
  }
  static void begin(Process& process, int64_t step) {
    process.step = step;
    process.voted = false;
    process.slot.reset();
    if (process.copied >= step) process.copied = -1;
    process.sent.reset();
  }
  static void complete(Store& store, size_t slot, int64_t step) {
    store.steps[slot] = store.words[slot] = step;
  }
  static void forget_after(Store& store, int64_t step) {
    for (int64_t& one : store.steps)
      if (one > step) one = -1;
  }
  void copy(int rank, Process& process) {
    Store& kept =
        processes_[partner_of(assignment_[rank], assignment_, machines_).value()].copies[rank];
    if (process.sent) {
      const auto [slot, step] = *std::exchange(process.sent, std::nullopt);
      complete(kept, slot, step);
      process.copied = step;
      return;
    }
    const int64_t newest = std::ranges::max(process.own.steps);
    if (newest <= process.copied) return;
    if (slot_with(kept.steps, newest)) {
      process.copied = newest;
      return;
    }
    const size_t slot = slot_for_next({kept.steps, {}}).value();
    kept.steps[slot] = -1;
    process.sent = {slot, newest};
  }
  bool agreed(int64_t step) const {
    return std::ranges::all_of(assignment_, [&](const auto& entry) {
      const Process& process = processes_.at(entry.second);
      return process.step > step || (process.step == step && process.voted);
    });
  }

  std::mt19937_64 random_;
  int machines_count_, next_ = 0;
  Assignment assignment_;
  std::map<int, int> machines_;
  std::map<int, Process> processes_;
};

TEST(Succession, AnyProcessMayBeLostAfterAnyOtherAtTheCostOfOneStep) {
  constexpr int kRuns = 40, kLosses = 250;
  for (int run = 0; run < kRuns; ++run) {
    std::mt19937_64 random(static_cast<uint64_t>(run));
    const int ranks = 2 + static_cast<int>(random() % 4);
    FakeFleet fleet(ranks, 1 + static_cast<int>(random() % 3), static_cast<uint64_t>(run));
    for (int loss = 0; loss < kLosses; ++loss) {
      // Each has a copy again: a second loss before that would be one of two at once.
      const int64_t before = fleet.step();
      while (fleet.step() < before + 2) fleet.tick();
      for (uint64_t i = random() % 40; i > 0; --i) fleet.tick();
      ASSERT_NO_FATAL_FAILURE(fleet.lose()) << "run " << run << ", loss " << loss;
    }
  }
}

}  // namespace
}  // namespace penstock
