// A dynamic programme over downsets: the least load of the devices used so far, by downset done and
// number of accelerators and CPUs used. From each downset all larger ones are walked through, a
// unit at a time, so that the load of the stage between is kept up to date and not computed anew.
#include "bench/planner/max_load.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "bench/planner/infinite.hpp"
#include "bench/planner/placement_units.hpp"
#include "bench/planner/stage_load.hpp"
#include "planner/downsets.hpp"

namespace penstock::bench {

namespace {

class LoadSearch {
 public:
  LoadSearch(const PlacementGraph& graph, const PlacementUnits& units, Downsets& downsets)
      : graph_(graph),
        units_(units),
        downsets_(downsets),
        load_(units),
        // A CPU more than there are units is never used, nor is such an accelerator.
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

  /// The least load, if it is at most `bound_s`; else infinite.
  double solve(double bound_s) {
    for (int c = 0; c <= cpus_; ++c)
      for (int a = 0; a <= accelerators_; ++a)
        capacity_s_.push_back(capacity_s(accelerators_ - a, cpus_ - c, bound_s));
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

  struct Link {
    int from, to;  // downsets
    bool cpu;
  };
  /// The stages of what solve() found, in order.
  std::vector<Link> stages() const {
    std::vector<Link> result;
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

 private:
  struct Cell {
    double load_s = infinite;
    int from = -1;
    bool cpu = false;
  };
  Cell& at(int set, int cell) { return best_[static_cast<size_t>(set) * cells_ + cell]; }
  const Cell& at(int set, int cell) const {
    return best_[static_cast<size_t>(set) * cells_ + cell];
  }
  const Cell& last() const {
    const Cell* row = &at(downsets_.full(), 0);
    return *std::min_element(row, row + cells_,
                             [](const Cell& a, const Cell& b) { return a.load_s < b.load_s; });
  }
  /// The most accelerator time that CPUs can take over in `budget_s` of their own: units are taken
  /// in the order in which they give most for it, the last in part.
  double cpu_share_s(double budget_s) const {
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

  double capacity_s(int accelerators, int cpus, double bound_s) const {
    return accelerators * bound_s + cpu_share_s(cpus * bound_s);
  }

  /// Keeps a better way to a downset, unless the devices left cannot do what is left in time.
  void improve(int to, int cell, const Cell& way) {
    if (left_s_[to] <= capacity_s_[cell] && way.load_s < at(to, cell).load_s) at(to, cell) = way;
  }

  /// Puts the stage between the two on a device more; says whether a larger stage can fit the bound.
  bool extend(int from, int to, double bound_s) {
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

  const PlacementGraph& graph_;
  const PlacementUnits& units_;
  Downsets& downsets_;
  StageLoad load_;
  int accelerators_, cpus_, cells_;  // cell: CPUs used * (accelerators_ + 1) + accelerators used
  std::vector<Cell> best_;           // of downset d: cells_ from d * cells_ on
  std::vector<int> live_;            // cells in which the downset walked from was reached
  std::vector<double> left_s_;       // on accelerators, by downset, of the units not in it
  std::vector<double> capacity_s_;   // by cell: what of it the devices left can do within the bound
};

/// What a split along one order reaches. Within it there are far fewer stages to look at.
double chain_load_s(const PlacementGraph& graph, const PlacementUnits& units) {
  // Sums along another way through the downsets differ in the last bits, which must not cost the
  // bound's own plan: at most some thousand additions, each off by 2^-53.
  constexpr double rounding = 1 + 1e-12;
  double any_s = 0;  // no device's load is above it
  for (const PlacementNode& node : graph.nodes)
    any_s += node.cpu_s + node.accelerator_s + node.output_s;
  Downsets chain(units.dag, 1);
  const double load_s = LoadSearch(graph, units, chain).solve(any_s * rounding);
  return std::min(load_s, any_s) * rounding;
}

std::vector<int> nodes_between(const PlacementUnits& units, const Downsets& downsets, int from,
                               int to) {
  std::vector<int> nodes;
  for (int node = 0; node < static_cast<int>(units.unit_of.size()); ++node) {
    const int unit = units.unit_of[node];
    if (downsets.contains(to, unit) && !downsets.contains(from, unit)) nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

double device_load_s(const PlacementGraph& graph, const std::vector<int>& nodes, bool cpu) {
  const std::set<int> mine(nodes.begin(), nodes.end());
  double compute_s = 0, bytes = 0;
  for (const int node : nodes) {
    compute_s += cpu ? graph.nodes[node].cpu_s : graph.nodes[node].accelerator_s;
    bytes += graph.nodes[node].bytes;
    if (!cpu && !graph.nodes[node].supported) return infinite;
  }
  if (cpu) return compute_s;
  if (bytes > graph.accelerator_bytes) return infinite;
  std::set<int> moved;
  for (const auto& [from, to] : graph.dag.edges)
    if (mine.contains(from) != mine.contains(to)) moved.insert(from);
  double transfer_s = 0;
  for (const int node : moved) transfer_s += graph.nodes[node].output_s;
  return compute_s + transfer_s;
}

MaxLoadPlan solve_max_load(const PlacementGraph& graph, size_t downset_limit) {
  const PlacementUnits units = placement_units(graph);
  Downsets downsets(units.dag, downset_limit);
  LoadSearch search(graph, units, downsets);
  MaxLoadPlan plan{.downsets = downsets.count(), .exact = downsets.complete()};
  if (search.solve(chain_load_s(graph, units)) == infinite) {
    plan.load_s = infinite;
    return plan;
  }
  for (const auto& [from, to, cpu] : search.stages()) {
    MaxLoadStage stage{cpu, nodes_between(units, downsets, from, to), 0};
    stage.load_s = device_load_s(graph, stage.nodes, cpu);
    plan.load_s = std::max(plan.load_s, stage.load_s);
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace penstock::bench
