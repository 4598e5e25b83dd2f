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

using Counts = std::vector<int>;  // held of each of a rank's stages, then left, then turning

/// The moments before something is given back, and as backwards in one part begin.
std::set<Counts> peaks(const std::vector<Action>& actions, const std::vector<size_t>& stages) {
  std::set<Counts> peaks;
  Counts now(3 * stages.size(), 0);
  bool risen = false;
  for (const Action& action : actions)
    for_each_part(action, [&](const Action& part) {
      const auto at = static_cast<size_t>(
          std::ranges::find(stages, static_cast<size_t>(part.stage)) - stages.begin());
      int &held = now[at], &left = now[stages.size() + at];
      if (part.kind == Kind::backward) {
        Counts turning = now;
        turning[2 * stages.size() + at] = 1;
        peaks.insert(std::move(turning));
        risen = false;
      }
      if (part.kind != Kind::forward && std::exchange(risen, false)) peaks.insert(now);
      if (part.kind == Kind::forward) ++held;
      if (is_input_backward(part.kind)) --held;
      if (part.kind == Kind::backward_input) ++left;
      if (part.kind == Kind::backward_weight) --left;
      risen = risen || part.kind == Kind::forward || part.kind == Kind::backward_input;
    });
  if (risen) peaks.insert(now);
  return peaks;
}

/// The moments that no other covers.
std::vector<Counts> most_of(const std::set<Counts>& all) {
  std::vector<Counts> most;
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    const auto covers = [&](const Counts& other) {
      return std::ranges::equal(other, *one, std::greater_equal());
    };
    if (std::ranges::none_of(most, covers)) most.push_back(*one);
  }
  return most;
}

}  // namespace

Placement placement(const Program& compute) {
  Placement result{compute.rank_count(), compute.microbatches, compute.rank_of_stage,
                   std::vector<int>(compute.rank_of_stage.size(), 0)};
  for (const std::vector<Action>& actions : compute.ranks) Holding(result).run(actions);
  return result;
}

std::vector<HeldAtOnce> fullest_moments(const Program& compute) {
  const size_t stages = compute.rank_of_stage.size();
  std::vector<std::vector<size_t>> own(compute.ranks.size());
  for (size_t stage = 0; stage < stages; ++stage)
    own[static_cast<size_t>(compute.rank_of_stage[stage])].push_back(stage);
  std::vector<HeldAtOnce> fullest;
  for (size_t rank = 0; rank < own.size(); ++rank) {
    const size_t count = own[rank].size();
    for (const std::vector<int>& one : most_of(peaks(compute.ranks[rank], own[rank]))) {
      const std::vector<int> none(stages, 0);
      HeldAtOnce moment{static_cast<int>(rank), none, none, none};
      for (size_t i = 0; i < count; ++i) {
        moment.held[own[rank][i]] = one[i];
        moment.left[own[rank][i]] = one[count + i];
        moment.turning[own[rank][i]] = one[2 * count + i];
      }
      fullest.push_back(std::move(moment));
    }
  }
  return fullest;
}

}  // namespace penstock
