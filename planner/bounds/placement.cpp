#include "planner/bounds/placement.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace penstock {

namespace {

/// Counts what one rank holds along its actions.
class Holding {
 public:
  explicit Holding(Placement& placement)
      : placement_(placement), now_(placement.rank_of_stage.size(), 0) {}

  void run(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      for_each_part(action, [&](const Action& part) { take(part); });
    }
  }

 private:
  void take(const Action& action) {
    const auto stage = static_cast<size_t>(action.stage);
    if (action.kind == Kind::forward) {
      ++now_[stage];
      if (++total_ <= most_) return;
      most_ = total_;
      for (size_t s = 0; s < now_.size(); ++s) {
        if (placement_.rank_of_stage[s] == placement_.rank_of_stage[stage]) {
          placement_.held[s] = now_[s];
        }
      }
    }
    if (is_input_backward(action.kind)) {
      --now_[stage];
      --total_;
    }
  }

  Placement& placement_;
  std::vector<int> now_;  // by stage
  int total_ = 0, most_ = 0;
};

}  // namespace

Placement placement(const Program& compute) {
  Placement result{compute.rank_count(), compute.microbatches, compute.rank_of_stage,
                   std::vector<int>(compute.rank_of_stage.size(), 0)};
  for (const std::vector<Action>& actions : compute.ranks) Holding(result).run(actions);
  return result;
}

std::vector<HeldAtOnce> fullest_moments(const Program& compute) {
  const size_t stages = compute.rank_of_stage.size();
  std::vector<HeldAtOnce> fullest;
  for (int rank = 0; rank < compute.rank_count(); ++rank) {
    std::vector<int> now(2 * stages, 0);  // held, then left
    std::set<std::vector<int>> all;
    for (const Action& action : compute.ranks[static_cast<size_t>(rank)])
      for_each_part(action, [&](const Action& part) {
        int& held = now[static_cast<size_t>(part.stage)];
        int& left = now[stages + static_cast<size_t>(part.stage)];
        if (part.kind == Kind::forward) ++held;
        if (is_input_backward(part.kind)) --held;
        if (part.kind == Kind::backward_input) ++left;
        if (part.kind == Kind::backward_weight) --left;
        all.insert(now);
      });
    std::vector<std::vector<int>> most;
    for (auto one = all.rbegin(); one != all.rend(); ++one) {
      const auto covers = [&](const std::vector<int>& other) {
        return std::ranges::equal(other, *one, std::greater_equal());
      };
      if (std::ranges::none_of(most, covers)) most.push_back(*one);
    }
    for (const std::vector<int>& one : most) {
      const auto middle = one.begin() + static_cast<std::ptrdiff_t>(stages);
      fullest.push_back({rank, {one.begin(), middle}, {middle, one.end()}});
    }
  }
  return fullest;
}

}  // namespace penstock
