#include "bench/planner/max_load/load_search.hpp"

#include <algorithm>
#include <functional>

namespace penstock::bench {

// More devices than there are units are never used.
LoadSearch::LoadSearch(const PlacementGraph& graph, const PlacementUnits& units, Downsets& downsets)
    : graph_(graph),
      units_(units),
      downsets_(downsets),
      load_(units),
      accelerators_(std::min(graph.accelerators, units.dag.nodes)),
      cpus_(std::min(graph.cpus, units.dag.nodes)),
      cells_((accelerators_ + 1) * (cpus_ + 1)),
      best_(static_cast<size_t>(downsets.count()) * cells_) {
  for (int set = 0; set < downsets.count(); ++set) {
    left_s_.push_back(0);
    for (int unit = 0; unit < units.dag.nodes; ++unit)
      if (!downsets.contains(set, unit)) left_s_.back() += units.accelerator_s[unit];
  }
}

double LoadSearch::solve(double bound_s) {
  for (int c = 0; c <= cpus_; ++c)
    for (int a = 0; a <= accelerators_; ++a)
      capacity_s_.push_back((accelerators_ - a) * bound_s + cpu_share_s((cpus_ - c) * bound_s));
  best_[0].load_s = 0;
  for (int from = 0; from < downsets_.count(); ++from) {
    live_.clear();
    for (int cell = 0; cell < cells_; ++cell)
      if (at(from, cell).load_s < infinite) live_.push_back(cell);
    if (live_.empty()) continue;
    downsets_.walk_up(
        from,
        [&](const Downsets::Step& step) {
          load_.add(step.node);
          return extend(from, step.downset, bound_s);
        },
        [&](const Downsets::Step& step) { load_.undo(step.node); });
  }
  return last().load_s;
}

std::vector<LoadSearch::Stage> LoadSearch::stages() const {
  std::vector<Stage> result;
  int set = downsets_.full();
  int cell = static_cast<int>(&last() - &at(set, 0));
  while (set != downsets_.empty()) {
    const Cell& now = at(set, cell);
    result.push_back({now.from, set, now.cpu});
    cell -= now.cpu ? accelerators_ + 1 : 1;
    set = now.from;
  }
  std::ranges::reverse(result);
  return result;
}

const LoadSearch::Cell& LoadSearch::last() const {
  const Cell* row = &at(downsets_.full(), 0);
  return *std::min_element(row, row + cells_,
                           [](const Cell& a, const Cell& b) { return a.load_s < b.load_s; });
}

/// The most accelerator time that CPUs can take over in `budget_s` of their own: units are taken
/// in the order in which they give most for it, the last in part.
double LoadSearch::cpu_share_s(double budget_s) const {
  std::vector<int> order;
  for (int unit = 0; unit < units_.dag.nodes; ++unit)
    if (units_.accelerator_s[unit] > 0) order.push_back(unit);
  std::ranges::sort(order, std::greater(),
                    [&](int unit) { return units_.accelerator_s[unit] / units_.cpu_s[unit]; });
  double share_s = 0;
  for (const int unit : order) {
    const double part = units_.cpu_s[unit] > budget_s ? budget_s / units_.cpu_s[unit] : 1.0;
    share_s += part * units_.accelerator_s[unit];
    budget_s -= part * units_.cpu_s[unit];
  }
  return share_s;
}

/// Puts the stage between the two on a device; says whether a larger stage can fit the bound.
bool LoadSearch::extend(int from, int to, double bound_s) {
  const StageLoad::Sums& sums = load_.now();
  const bool holds = sums.unsupported == 0 && sums.bytes <= graph_.accelerator_bytes;
  const bool accelerator = holds && accelerators_ > 0 && sums.accelerator_s <= bound_s;
  const bool cpu = cpus_ > 0 && sums.cpu_s <= bound_s;
  const double load_s = sums.accelerator_s + sums.transfer_s;
  for (const int cell : live_) {
    const double before_s = at(from, cell).load_s;
    if (accelerator && load_s <= bound_s && cell % (accelerators_ + 1) < accelerators_)
      improve(to, cell + 1, {std::max(before_s, load_s), from, false});
    if (cpu && cell / (accelerators_ + 1) < cpus_)
      improve(to, cell + accelerators_ + 1, {std::max(before_s, sums.cpu_s), from, true});
  }
  return accelerator || cpu;
}

/// Keeps a better way to a downset, unless the devices left cannot do what is left in time.
void LoadSearch::improve(int to, int cell, const Cell& way) {
  if (left_s_[to] <= capacity_s_[cell] && way.load_s < at(to, cell).load_s) at(to, cell) = way;
}

}  // namespace penstock::bench
