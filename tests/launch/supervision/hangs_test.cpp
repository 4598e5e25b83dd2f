// The rank that hangs is the one that is found, wherever it does and however slow others are; a run
// that only is slow is left alone.
#include "launch/supervision/hangs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace penstock {
namespace {

constexpr Deadlines kDeadlines;

RankView acts(int64_t step, int position) { return {{step, position}, {Activity::Kind::acts}}; }
RankView waits(int64_t step, int position, int peer = -1) {
  return {{step, position}, {Activity::Kind::waits, peer}};
}

/// Ranks that run a random program again and again as workers do: an action computes or takes a
/// message, which is there once its sender has done the action that sends it; each step ends with a
/// sum over all ranks. Time goes on in small ticks.
class SlowRun {
 public:
  struct Fault {
    int64_t step = -1;
    size_t rank = 0;
    int position = 0;  // hangs there; its message is lost, where that is one
  };
  static constexpr double kTick_s = 0.05;

  /// `slowest`: times the usual time that an action may take once in a while.
  SlowRun(size_t ranks, double slowest, uint64_t seed)
      : random_(seed), slowest_(slowest), ranks_(ranks) {
    for (int event = 0; event < 30; ++event) {
      const size_t at = random_() % ranks;
      if (ranks > 1 && random_() % 2 == 0) {
        const size_t from = (at + 1 + random_() % (ranks - 1)) % ranks;
        const int sent = static_cast<int>(ranks_[from].actions.size());
        ranks_[from].actions.push_back({0});  // a send takes no time
        ranks_[at].actions.push_back({0, static_cast<int>(from), sent});
      } else {
        ranks_[at].actions.push_back({0.01 * static_cast<double>(random_() % 200)});
      }
    }
    for (Rank& rank : ranks_) rank.actions.push_back({0, kSum});
    for (Rank& rank : ranks_) begin(rank);
  }

  void set(const Fault& fault) { fault_ = fault; }
  bool is_message(size_t rank, int position) const { return action(rank, position).peer >= 0; }
  int actions(size_t rank) const { return static_cast<int>(ranks_[rank].actions.size()); }
  int64_t step(size_t rank) const { return ranks_[rank].step; }

  void tick() {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      rank.left_s -= kTick_s;
      for (int moves = 0; rank.left_s <= 0 && !blocked(i) && moves < 4; ++moves) next(rank);
    }
  }
  std::vector<std::optional<RankView>> views() const {
    std::vector<std::optional<RankView>> views;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      const int peer = action(i, rank.position).peer;
      const bool waiting = peer != kNobody && blocked(i) && !hangs(i);
      views.emplace_back(waiting ? waits(rank.step, rank.position, std::max(peer, -1))
                                 : acts(rank.step, rank.position));
    }
    return views;
  }

 private:
  static constexpr int kNobody = -2, kSum = -1;
  struct Act {
    double usual_s = 0;
    int peer = kNobody;  // whose message it takes
    int sent_at = 0;     // position of the peer's action that sends it
  };
  struct Rank {
    std::vector<Act> actions;
    int64_t step = 0;
    int position = 0;
    double left_s = 0;  // of the action
  };

  const Act& action(size_t rank, int position) const {
    return ranks_[rank].actions[static_cast<size_t>(position)];
  }
  bool faulty(size_t i) const {
    return i == fault_.rank && ranks_[i].step == fault_.step &&
           ranks_[i].position == fault_.position;
  }
  bool hangs(size_t i) const { return faulty(i) && !is_message(i, fault_.position); }
  bool blocked(size_t i) const {
    if (faulty(i)) return true;
    const Rank& rank = ranks_[i];
    const Act& now = action(i, rank.position);
    if (now.peer == kSum) {
      return !std::ranges::all_of(ranks_, [&](const Rank& r) {
        return r.step > rank.step || r.position + 1 == static_cast<int>(r.actions.size());
      });
    }
    if (now.peer == kNobody) return false;
    const Rank& sender = ranks_[static_cast<size_t>(now.peer)];
    return sender.step == rank.step && sender.position <= now.sent_at;
  }
  void next(Rank& rank) {
    if (++rank.position == static_cast<int>(rank.actions.size())) {
      rank.position = 0;
      ++rank.step;
    }
    begin(rank);
  }
  void begin(Rank& rank) {
    const double usual = rank.actions[static_cast<size_t>(rank.position)].usual_s;
    const bool slow = random_() % 10 == 0;
    rank.left_s =
        usual * (slow ? 1 + (slowest_ - 1) * static_cast<double>(random_() % 100) / 100 : 1);
  }

  std::mt19937_64 random_;
  double slowest_;
  std::vector<Rank> ranks_;
  Fault fault_;
};

/// Looks at a run for that many seconds, at irregular times, with long pauses of the watching
/// process, in which the ranks go on or not.
std::optional<Hang> watch(SlowRun& run, HangWatch& hangs, std::mt19937_64& random, double& now_s,
                          double seconds) {
  for (const double end_s = now_s + seconds; now_s < end_s;) {
    const bool paused = random() % 500 == 0;
    const int ticks = paused ? 4000 : 1 + static_cast<int>(random() % 6);
    if (!paused || random() % 2 == 0)
      for (int i = 0; i < ticks; ++i) run.tick();
    now_s += SlowRun::kTick_s * ticks;
    if (const auto hang = hangs.look(now_s, run.views())) return hang;
  }
  return std::nullopt;
}

TEST(HangWatch, LeavesRanksAloneThatAreOnlySlow) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const size_t ranks = 1 + random() % 6;
    SlowRun run(ranks, /*slowest=*/5, seed);
    HangWatch hangs(ranks, kDeadlines);
    double now_s = 1000;
    EXPECT_FALSE(watch(run, hangs, random, now_s, 3000)) << "seed " << seed;
    EXPECT_GT(run.step(0), 20);
  }
}

TEST(HangWatch, FindsTheRankThatHangsAndNoOther) {
  int standstills = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const size_t ranks = 1 + random() % 6;
    SlowRun run(ranks, /*slowest=*/5, seed);
    HangWatch hangs(ranks, kDeadlines);
    SlowRun::Fault fault{.step = static_cast<int64_t>(random() % 20), .rank = random() % ranks};
    fault.position = static_cast<int>(random() % static_cast<uint64_t>(run.actions(fault.rank)));
    run.set(fault);
    double now_s = 1000;
    const auto hang = watch(run, hangs, random, now_s, 100'000);
    ASSERT_TRUE(hang) << "seed " << seed;
    const bool standstill = run.is_message(fault.rank, fault.position);
    standstills += standstill ? 1 : 0;
    EXPECT_EQ(hang->rank, standstill ? -1 : static_cast<int>(fault.rank)) << "seed " << seed;
    EXPECT_EQ(run.step(fault.rank), fault.step);
    EXPECT_GE(hang->for_s, kDeadlines.least_s);
  }
  EXPECT_GT(standstills, 50);
}

/// Looks at ranks that stay as they are, for that many seconds or until one hangs.
class Looker {
 public:
  explicit Looker(size_t ranks) : hangs(ranks, kDeadlines) {}
  std::optional<Hang> stay(int seconds, const std::vector<std::optional<RankView>>& ranks) {
    for (int look = 0; look < 4 * seconds; ++look)
      if (const auto hang = hangs.look(0.25 * looks_++, ranks)) return hang;
    return std::nullopt;
  }
  HangWatch hangs;

 private:
  int looks_ = 0;
};

TEST(HangWatch, GivesTheFirstStepItsOwnDeadline) {
  Looker looker(1);
  EXPECT_FALSE(looker.stay(599, {acts(0, 3)}));
  const auto hang = looker.stay(10, {acts(0, 3)});
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 0);
  EXPECT_NEAR(hang->for_s, 600, 0.5);
}

TEST(HangWatch, HasNoDeadlineOutsideOfStepsAndKnowsLongActions) {
  Looker looker(2);
  const RankView outside{{3, -1}, {Activity::Kind::outside}};
  EXPECT_FALSE(looker.stay(5, {acts(1, 7), waits(1, 7, 0)}));
  EXPECT_FALSE(looker.stay(5, {acts(2, 0), waits(2, 0)}));
  EXPECT_FALSE(looker.stay(100'000, {outside, waits(3, 0)}));
  EXPECT_FALSE(looker.stay(90, {acts(3, 7), waits(3, 7, 0)}));  // it took 5 s
  looker.hangs.restart();
  EXPECT_FALSE(looker.stay(90, {acts(3, 7), waits(3, 7, 0)}));
  const auto hang = looker.stay(2000, {acts(3, 7), waits(3, 7, 0)});
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 0);
  EXPECT_NEAR(hang->for_s, 20 * 5, 10);
}

TEST(HangWatch, TellsNoStandstillOfRanksThatItDoesNotSee) {
  Looker looker(2);
  EXPECT_FALSE(looker.stay(10'000, {std::nullopt, waits(4, 2, 0)}));
  EXPECT_TRUE(looker.stay(10'000, {waits(4, 2, 1), waits(4, 2, 0)}));
}

TEST(HangWatch, CountsAPauseOfItsOwnProcessAsOneLook) {
  HangWatch hangs(1, kDeadlines);
  hangs.look(0, {acts(0, 1)});
  hangs.look(0.1, {acts(1, 1)});
  EXPECT_FALSE(hangs.look(100'000, {acts(1, 1)}));
  EXPECT_FALSE(hangs.look(200'000, {acts(1, 1)}));
}

TEST(LostMessage, IsOneThatWasSent) {
  Program program;
  program.ranks = {{{0, Kind::forward, 0}, {0, Kind::send_forward, 0}, {0, Kind::recv_backward, 0}},
                   {{1, Kind::recv_forward, 0},
                    {1, Kind::forward, 0},
                    {1, Kind::backward, 0},
                    {1, Kind::send_backward, 0}}};
  program.rank_of_stage = {0, 1};
  const auto lost = lost_message(program, {waits(3, 2, 1), waits(3, 0, 0)});
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->from, 0);
  EXPECT_EQ(lost->to, 1);
  // It is not lost that is not sent, nor where there is a sum.
  EXPECT_FALSE(lost_message(program, {waits(3, 0), waits(3, 0, 0)}));
  EXPECT_FALSE(lost_message(program, {waits(3, -1), waits(3, 3)}));
  const auto replica =
      lost_message(program, {waits(3, -1), waits(3, -1), waits(4, -1), waits(4, 0, 2)});
  ASSERT_TRUE(replica);
  EXPECT_EQ(replica->from, 2);
  EXPECT_EQ(replica->to, 3);
  // The parts of a tensor group have one program: part 1 of rank 0 sends to part 1 of rank 1.
  const auto part = lost_message(
      program, {waits(3, -1), waits(3, 2, -1), waits(3, -1), waits(3, 0, 1)}, /*parts=*/2);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->from, 1);
  EXPECT_EQ(part->to, 3);
}

}  // namespace
}  // namespace penstock
