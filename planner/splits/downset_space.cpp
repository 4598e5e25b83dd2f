#include "planner/splits/downset_space.hpp"

#include <algorithm>
#include <utility>

namespace penstock {

DownsetSpace::DownsetSpace(const ChainCosts& costs, std::shared_ptr<const Branches> branches,
                           Placement placement, RankSpeeds speeds)
    : branches_(std::move(branches)),
      placement_(std::move(placement)),
      speeds_(std::move(speeds)),
      sums_(costs, placement_.microbatches, branches_->grown()) {
  const WorkSums alone(costs, placement_.microbatches, WorkSums::prefixes(costs.units()));
  through_.resize(static_cast<size_t>(costs.units()));
  for (int unit = 0; unit < costs.units(); ++unit) {
    Path& path = through_[static_cast<size_t>(unit)];
    for (const Branches::Edge& edge : branches_->edges()) {
      if (edge.to != unit) continue;
      const Path& from = through_[static_cast<size_t>(edge.from)];
      path.head_s = std::max(path.head_s, from.head_s);
      if (edge.gradient) path.both_s = std::max(path.both_s, from.both_s);
    }
    path.head_s += alone.bare_forward(unit, unit + 1);
    path.both_s += alone.bare_forward(unit, unit + 1) + alone.bare_input(unit, unit + 1);
  }
}

std::vector<int> DownsetSpace::ends(int begin, int left) const {
  if (left == 1) return {units()};
  return branches_->above(begin, left - 1);
}

/// The path over what the stage is given by units before it.
DownsetSpace::Path DownsetSpace::before(int begin, int end) const {
  const Downsets& sets = branches_->downsets();
  Path longest;
  for (const Branches::Edge& edge : branches_->edges()) {
    const bool enters = sets.contains(begin, edge.from) && sets.contains(end, edge.to) &&
                        !sets.contains(begin, edge.to);
    if (!enters) continue;
    const Path& from = through_[static_cast<size_t>(edge.from)];
    longest.head_s = std::max(longest.head_s, from.head_s);
    if (edge.gradient) longest.both_s = std::max(longest.both_s, from.both_s);
  }
  return longest;
}

SplitSpace::Prefix DownsetSpace::extend(const Prefix& known, int begin, int end, int left) const {
  const int stage = stages() - left;
  const auto at = static_cast<size_t>(placement_.rank_of_stage[static_cast<size_t>(stage)]);
  const double speed = speeds_.relative()[at];
  Prefix next = known;
  if (next.ranks.empty()) next.ranks.resize(static_cast<size_t>(placement_.ranks));
  RankLoad& rank = next.ranks[at];
  const Path path = placement_.one_stage_per_rank() ? before(begin, end) : Path{};
  rank.begun = true;
  const double forwards_s = sums_.forwards(begin, end) / speed;
  const double inputs_s = sums_.inputs(begin, end, 1) / speed - forwards_s;
  rank.forwards_s += path.head_s + forwards_s;
  rank.inputs_s += path.both_s - path.head_s + inputs_s;
  rank.backwards_s += inputs_s + sums_.weights(begin, end) / speed + sums_.reduce(begin, end);
  rank.optimizer_s += sums_.optimizer(begin, end) / speed;
  next.path.longest =
      std::max(known.path.longest, rank.forwards_s + std::max(rank.inputs_s, rank.backwards_s));
  next.path.optimizer = std::max(known.path.optimizer, rank.optimizer_s);
  return next;
}

/// As in placed_space.cpp, without what comes before ranks that have not begun.
double DownsetSpace::mean(const Prefix& known, int begin, int left) const {
  const auto from = placement_.rank_of_stage.begin() + (stages() - left);
  std::vector<char> open(static_cast<size_t>(placement_.ranks), 0);
  for (auto rank = from; rank != placement_.rank_of_stage.end(); ++rank) {
    open[static_cast<size_t>(*rank)] = 1;
  }
  double busy_s = 0, together = 0;
  for (size_t rank = 0; rank < open.size(); ++rank) {
    if (!open[rank]) continue;
    together += speeds_.relative()[rank];
    if (known.ranks.empty()) continue;
    const RankLoad& load = known.ranks[rank];
    busy_s += speeds_.relative()[rank] * (load.forwards_s + load.backwards_s);
  }
  const int all = units();
  const double left_s = sums_.inputs(begin, all, left) + sums_.weights_alone(begin, all) +
                        speeds_.slowest() * sums_.reduce(begin, all);
  return (busy_s + left_s) / together;
}

double DownsetSpace::min_s(const Prefix& known, int begin, int left) const {
  double longest = known.path.longest;
  if (left > 0) longest = std::max(longest, mean(known, begin, left));
  return longest + known.path.optimizer;
}

double DownsetSpace::split_s(const std::vector<int>& begins) const {
  Prefix known;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const int end = stage + 1 < begins.size() ? begins[stage + 1] : units();
    known = extend(known, begins[stage], end, static_cast<int>(begins.size() - stage));
  }
  return min_s(known, units(), 0);
}

}  // namespace penstock
