// Ranks that share cores: times worked out by hand, and a simulation of its own that goes from one
// change of rates to the next.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <ranges>
#include <tuple>

#include "simulator/explain/explain.hpp"
#include "tests/simulator/random_program.hpp"

namespace penstock {
namespace {

using testing::rows;

/// Stages that take so long, one on each rank, without transfers.
Costs forwards(const std::vector<double>& forward_s, std::vector<std::vector<int>> cores) {
  Costs costs;
  for (const double time_s : forward_s) costs.stages.push_back({.forward_s = time_s});
  costs.cores = std::move(cores);
  return costs;
}

TEST(SharedCores, TwoRanksWithEqualWorkTakeTwiceAsLong) {
  const Simulation both = simulate(rows("0F0\n1F0"), forwards({1, 1}, {{0}, {0}}), Network());
  EXPECT_EQ(both.makespan_s, 2);
  EXPECT_EQ(both.busy_s, (std::vector<double>{2, 2}));
  EXPECT_EQ(both.rank_end_s, (std::vector<double>{2, 2}));
}

TEST(SharedCores, TheLongerGoesOnAloneAtFullSpeed) {
  // Both at half speed until 2, then two more seconds.
  EXPECT_EQ(simulate(rows("0F0\n1F0"), forwards({1, 3}, {{0}, {0}}), Network()).rank_end_s,
            (std::vector<double>{2, 4}));
  // Thirds until 3, halves until 5, then one second.
  EXPECT_EQ(
      simulate(rows("0F0\n1F0\n2F0"), forwards({1, 2, 3}, {{0}, {0}, {0}}), Network()).rank_end_s,
      (std::vector<double>{3, 5, 6}));
}

TEST(SharedCores, ARankThatWaitsTakesNothing) {
  Costs costs = forwards({1, 2}, {{0}, {0}});
  costs.flows = {{0, 1, 8, 0}};
  const Program program = rows("0F0 0SEND_F0:1\n1RECV_F0:0 1F0");
  const Simulation simulation = simulate(program, costs, Link{.latency_s = 0.5});
  EXPECT_EQ(simulation.makespan_s, 3.5);
  EXPECT_EQ(simulation.busy_s, (std::vector<double>{1, 2}));
}

TEST(SharedCores, AComputeIsSlowedFromTheMomentThatAnotherBegins) {
  // Rank 1 begins at 1.5; half of rank 0's second F is done then, the rest takes until 2.5. Rank 1
  // has 1.5 s left then.
  Costs costs = forwards({1, 2, 1}, {{0}, {0}, {1}});
  costs.flows = {{2, 1, 8, 0}};
  EXPECT_EQ(simulate(rows("0F0 0F1\n1RECV_F0:2 1F0\n2F0 2SEND_F0:1"), costs, Link{.latency_s = 0.5})
                .rank_end_s,
            (std::vector<double>{2.5, 4, 1}));
}

TEST(SharedCores, ReplicasOfARankShareItsCore) {
  // Two of each rank, both of rank 0 on core 0 and both of rank 1 on core 1.
  EXPECT_EQ(simulate(rows("0F0\n1F0"), forwards({1, 2}, {{0, 0}, {1, 1}}), Network()).rank_end_s,
            (std::vector<double>{2, 4}));
  // Rank 0 on cores 0 and 1, rank 1 on 1 and 0: where both compute, each core has two.
  EXPECT_EQ(simulate(rows("0F0\n1F0"), forwards({1, 2}, {{0, 1}, {1, 0}}), Network()).rank_end_s,
            (std::vector<double>{2, 3}));
}

TEST(SharedCores, TheOptimizersShareToo) {
  Costs costs = forwards({1, 1}, {{0}, {0}});
  for (StageCosts& stage : costs.stages) stage.optimizer_s = 0.5;
  EXPECT_EQ(simulate(rows("0F0 0OPT\n1F0 1OPT"), costs, Network()).makespan_s, 3);
}

TEST(SharedCores, ACoreOfItsOwnChangesNothing) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    testing::Case tested = testing::make_case(seed);
    const Simulation before = simulate(tested.program, tested.costs, tested.link);
    for (int rank = 0; rank < tested.program.rank_count(); ++rank)
      tested.costs.cores.push_back({rank});
    EXPECT_EQ(simulate(tested.program, tested.costs, tested.link).timeline, before.timeline)
        << "seed " << seed;
  }
}

/// Eager links alone. Goes from one change to the next: a compute begins or ends, a message comes.
class Stepped {
 public:
  Stepped(const Program& program, const Costs& costs, const Link& link)
      : program_(program), costs_(costs), link_(link), ranks_(program.ranks.size()) {}

  std::vector<double> ends_s() {
    do {
      for (size_t rank = 0; rank < ranks_.size(); ++rank) go_on(rank);
    } while (advance());
    std::vector<double> ends;
    for (const Rank& rank : ranks_) ends.push_back(rank.end_s);
    return ends;
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  struct Rank {
    size_t next = 0;
    double left_s = 0, end_s = 0;
    bool computing = false;
  };
  using Value = std::tuple<int, int, int, bool>;  // from, to, microbatch, gradient

  /// All that this rank does at this moment.
  void go_on(size_t r) {
    Rank& rank = ranks_[r];
    while (!rank.computing && rank.next < program_.ranks[r].size()) {
      const Action& action = program_.ranks[r][rank.next];
      if (is_send(action.kind)) {
        send(action);
      } else if (!is_receive(action.kind)) {
        if (comes_s(action) > now_s_) return;
        rank.computing = true;
        rank.left_s = costs_.duration_s(action);
        return;
      }
      ++rank.next;
    }
  }

  void send(const Action& action) {
    const bool gradient = action.kind == Kind::send_backward;
    const int peer = peer_stage(action);
    double& free_s = free_s_[{rank_of(action.stage), rank_of(peer), gradient}];
    free_s = std::max(free_s, now_s_) + link_.transfer_s(costs_.message_bytes(action));
    arrivals_s_[{action.stage, peer, action.microbatch, gradient}] = free_s + link_.propagation_s;
  }

  /// When the last message that the compute needs is there; `never` where one is not sent yet.
  double comes_s(const Action& action) const {
    double last_s = 0;
    for (const auto& actions : program_.ranks) {
      for (const Action& other : actions) {
        if (!is_send(other.kind) || peer_stage(other) != action.stage) continue;
        if (other.microbatch != action.microbatch) continue;
        const bool gradient = other.kind == Kind::send_backward;
        const bool needs =
            gradient ? action.kind == Kind::backward || action.kind == Kind::backward_input
                     : action.kind == Kind::forward;
        if (!needs) continue;
        const auto at = arrivals_s_.find({other.stage, action.stage, action.microbatch, gradient});
        last_s = std::max(last_s, at == arrivals_s_.end() ? never : at->second);
      }
    }
    return last_s;
  }

  double slower(size_t rank) const {
    return static_cast<double>(
        std::ranges::count_if(std::views::iota(size_t{0}, ranks_.size()), [&](size_t other) {
          return ranks_[other].computing && costs_.cores[other] == costs_.cores[rank];
        }));
  }

  /// To the next change; false where there is none.
  bool advance() {
    double next_s = never;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].computing) {
        next_s = std::min(next_s, now_s_ + ranks_[r].left_s * slower(r));
      } else if (ranks_[r].next < program_.ranks[r].size()) {
        next_s = std::min(next_s, comes_s(program_.ranks[r][ranks_[r].next]));
      }
    }
    if (next_s == never) return false;
    std::vector<size_t> ended;
    std::vector<double> left_s;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      left_s.push_back(ranks_[r].left_s - (next_s - now_s_) / slower(r));
      if (ranks_[r].computing && now_s_ + ranks_[r].left_s * slower(r) == next_s)
        ended.push_back(r);
    }
    now_s_ = next_s;
    for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r].left_s = left_s[r];
    for (const size_t r : ended) {
      ranks_[r].computing = false;
      ranks_[r].end_s = now_s_;
      ++ranks_[r].next;
    }
    return true;
  }

  int rank_of(int stage) const { return program_.rank_of_stage[static_cast<size_t>(stage)]; }

  const Program& program_;
  const Costs& costs_;
  const Link& link_;
  std::vector<Rank> ranks_;
  std::map<Value, double> arrivals_s_;
  std::map<std::tuple<int, int, bool>, double> free_s_;
  double now_s_ = 0;
};

testing::Case sharing_case(unsigned seed) {
  testing::Case tested = testing::make_case(seed);
  tested.link.mode = SendMode::eager;
  for (StageCosts& stage : tested.costs.stages) {
    stage.forward_host_s = stage.backward_host_s = 0;
    stage.backward_input_host_s = stage.backward_weight_host_s = 0;
  }
  const int cores = 1 + static_cast<int>(seed % 3);
  for (int rank = 0; rank < tested.program.rank_count(); ++rank)
    tested.costs.cores.push_back({rank % cores});
  return tested;
}

// Times are below 2^10 s, and each of some hundred changes rounds them a few times.
constexpr double rounding_s = 1000 * 1024 * std::numeric_limits<double>::epsilon();

TEST(SharedCores, RandomProgramsTakeAsLongAsSteppedThrough) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const testing::Case tested = sharing_case(seed);
    SCOPED_TRACE(testing::describe(tested, seed));
    const Simulation found = simulate(tested.program, tested.costs, tested.link);
    const std::vector<double> expected =
        Stepped(tested.program, tested.costs, tested.link).ends_s();
    for (size_t rank = 0; rank < expected.size(); ++rank)
      EXPECT_NEAR(found.rank_end_s[rank], expected[rank], rounding_s);
    if (HasFailure()) return;
  }
}

TEST(SharedCores, NoCoreDoesMoreThanItsWorkAndSharingOnlyDelays) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    testing::Case tested = sharing_case(seed);
    SCOPED_TRACE(testing::describe(tested, seed));
    const double shared_s = simulate(tested.program, tested.costs, tested.link).makespan_s;
    std::map<int, double> work_s;
    for (size_t rank = 0; rank < tested.program.ranks.size(); ++rank) {
      for (const Action& action : tested.program.ranks[rank])
        work_s[tested.costs.cores[rank].front()] += tested.costs.duration_s(action);
    }
    for (const auto& [core, seconds] : work_s) EXPECT_GE(shared_s, seconds - rounding_s);
    tested.costs.cores.clear();
    EXPECT_GE(shared_s,
              simulate(tested.program, tested.costs, tested.link).makespan_s - rounding_s);
    if (HasFailure()) return;
  }
}

TEST(SharedCores, TheCriticalPathLeadsFromTheStartToTheEnd) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    const testing::Case tested = sharing_case(seed);
    SCOPED_TRACE(testing::describe(tested, seed));
    const Simulation simulation = simulate(tested.program, tested.costs, tested.link);
    const CriticalPath path = explain(tested.program, tested.costs, tested.link).path;
    EXPECT_EQ(path.launch_s, 0);
    EXPECT_EQ(path.wait_s, 0);
    double at_s = 0;
    for (const PathStep& step : path.steps) {
      EXPECT_EQ(step.start_s, at_s);
      at_s = step.end_s;
    }
    EXPECT_EQ(at_s, simulation.makespan_s);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock
