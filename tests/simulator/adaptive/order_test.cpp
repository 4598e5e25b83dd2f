// Orders of actions against all there are, of hundreds of small problems: the bound is never above
// the best of them, and the order found is seldom worse.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "pipeline/program/check.hpp"
#include "simulator/adaptive/adaptive.hpp"
#include "simulator/adaptive/order_bound.hpp"
#include "simulator/adaptive/order_search.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock {
namespace {

constexpr double rounding_of_orders = 1e-12;

double makespan_s(const AdaptiveProblem& problem, const Program& program) {
  return simulate_compute(program, problem.flows, problem.costs, problem.network, {false, false})
      .makespan_s;
}

/// Tries every order of the actions that begin as early as it lets them, in the order in which they
/// begin. Each stage takes its microbatches in turn: they are alike, but for the first.
class AllOrders {
 public:
  AllOrders(const AdaptiveProblem& problem, double known_s)
      : problem_(problem),
        links_(problem),
        stages_(problem.rank_of_stage.size()),
        best_s_(known_s),
        free_s_(static_cast<size_t>(problem.ranks), 0),
        left_s_(free_s_),
        stage_(stages_) {
    for (size_t stage = 0; stage < stages_; ++stage) {
      const StageCosts& of = costs(stage);
      left_s_[rank_of(stage)] += problem.microbatches * (of.forward_s + least_s(stage)) +
                                 of.first_forward_s + of.first_backward_s;
    }
  }

  double run() {
    go_on(0);
    return best_s_;
  }

 private:
  struct Stage {
    std::vector<double> forward_end_s, backward_end_s;
    int weights = 0;  // of I without their W
  };

  const StageCosts& costs(size_t stage) const { return problem_.costs.stages[stage]; }
  size_t rank_of(size_t stage) const { return static_cast<size_t>(problem_.rank_of_stage[stage]); }
  double least_s(size_t stage) const {
    const StageCosts& of = costs(stage);
    return std::min(of.backward_s, of.backward_input_s + of.backward_weight_s);
  }

  /// Below 0: it cannot be run yet.
  double start_s(size_t stage, bool forward) const {
    const Stage& of = stage_[stage];
    const size_t m = forward ? of.forward_end_s.size() : of.backward_end_s.size();
    if (m == static_cast<size_t>(problem_.microbatches)) return -1;
    if (!forward && of.forward_end_s.size() <= m) return -1;
    double at_s = free_s_[rank_of(stage)];
    for (const auto& [from, transfer_s] : (forward ? links_.forward : links_.backward)[stage]) {
      const Stage& sender = stage_[static_cast<size_t>(from)];
      const auto& ends_s = forward ? sender.forward_end_s : sender.backward_end_s;
      if (ends_s.size() <= m) return -1;
      at_s = std::max(at_s, ends_s[m] + transfer_s);
    }
    return at_s;
  }

  void go_on(double from_s) {
    double longest_s = 0, left_s = 0;
    for (size_t rank = 0; rank < free_s_.size(); ++rank) {
      longest_s = std::max(longest_s,
                           std::max(free_s_[rank], from_s * (left_s_[rank] > 0)) + left_s_[rank]);
      left_s += left_s_[rank];
    }
    if (longest_s >= best_s_ * (1 - rounding_of_orders)) return;
    if (left_s < rounding_of_orders) {
      best_s_ = longest_s;
      return;
    }
    for (size_t stage = 0; stage < stages_; ++stage) {
      const StageCosts& of = costs(stage);
      Stage& state = stage_[stage];
      if (const double at_s = start_s(stage, true); at_s >= from_s) {
        const double forward_s =
            of.forward_s + (state.forward_end_s.empty() ? of.first_forward_s : 0);
        state.forward_end_s.push_back(at_s + forward_s);
        take(stage, at_s, forward_s, forward_s);
        state.forward_end_s.pop_back();
      }
      if (const double at_s = start_s(stage, false); at_s >= from_s) {
        const double first_s = state.backward_end_s.empty() ? of.first_backward_s : 0;
        state.backward_end_s.push_back(at_s + of.backward_s + first_s);
        take(stage, at_s, of.backward_s + first_s, least_s(stage) + first_s);
        state.backward_end_s.back() = at_s + of.backward_input_s + first_s;
        ++state.weights;
        take(stage, at_s, of.backward_input_s + first_s,
             least_s(stage) + first_s - of.backward_weight_s);
        --state.weights;
        state.backward_end_s.pop_back();
      }
      if (state.weights > 0 && free_s_[rank_of(stage)] >= from_s) {
        --state.weights;
        take(stage, free_s_[rank_of(stage)], of.backward_weight_s, of.backward_weight_s);
        ++state.weights;
      }
    }
  }

  void take(size_t stage, double at_s, double seconds, double off_s) {
    const size_t rank = rank_of(stage);
    const double free_s = std::exchange(free_s_[rank], at_s + seconds);
    const double left_s = std::exchange(left_s_[rank], left_s_[rank] - off_s);
    go_on(at_s);
    free_s_[rank] = free_s;
    left_s_[rank] = left_s;
  }

  const AdaptiveProblem& problem_;
  const StageLinks links_;
  const size_t stages_;
  double best_s_;
  std::vector<double> free_s_, left_s_;  // by rank
  std::vector<Stage> stage_;
};

/// On two ranks, by the seed of one to three microbatches through two to five stages.
AdaptiveProblem small_problem(uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> time_s(0.2, 2);
  AdaptiveProblem problem{.ranks = 2};
  const int stages = 2 + static_cast<int>(random() % 4);
  problem.microbatches = stages > 3 ? 2 : 1 + static_cast<int>(random() % 3);
  const bool v = random() % 3 == 0;
  for (int stage = 0; stage < stages; ++stage) {
    problem.rank_of_stage.push_back(v ? (stage + 1) / 2 % 2 : stage % 2);
    StageCosts& each = problem.costs.stages.emplace_back();
    each.forward_s = time_s(random) * (random() % 3 == 0 ? 0.1 : 1);
    each.backward_input_s = time_s(random);
    each.backward_weight_s = time_s(random);
    each.backward_s = (0.8 + 0.1 * static_cast<double>(random() % 4)) *
                      (each.backward_input_s + each.backward_weight_s);
    if (seed % 3 != 0) continue;
    each.first_forward_s = each.forward_s * (0.3 - 0.1 * static_cast<double>(random() % 6));
    each.first_backward_s = each.backward_s * (0.3 - 0.1 * static_cast<double>(random() % 6));
  }
  problem.flows = chain_flows(stages);
  if (stages > 2 && random() % 3 == 0) problem.flows.push_back({0, 2, random() % 2 == 0});
  if (stages > 3 && random() % 4 == 0)
    std::erase_if(problem.flows, [](const Flow& flow) { return flow.from == 1 && flow.to == 2; });
  if (random() % 2) problem.network = Link{.latency_s = 0.1};
  return problem;
}

TEST(Orders, NoneIsFasterThanTheBoundAndFewAreFasterThanTheOneFound) {
  int reached = 0, best = 0, problems = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const AdaptiveProblem problem = small_problem(seed);
    const double found_s = makespan_s(problem, adaptive(problem));
    const double best_s = AllOrders(problem, found_s * (1 + 1e-9)).run();
    const double bound_s = min_makespan_s(problem, StageLinks(problem));
    ASSERT_LE(bound_s, best_s * (1 + rounding_of_orders)) << "seed " << seed;
    ++problems;
    reached += bound_s >= best_s * (1 - 1e-9);
    best += found_s <= best_s * (1 + 1e-8);
  }
  EXPECT_GT(reached, problems / 2);
  EXPECT_GT(best, problems * 4 / 5);
}

}  // namespace
}  // namespace penstock
