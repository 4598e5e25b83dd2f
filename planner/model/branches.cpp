#include "planner/model/branches.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/model/branch_units.hpp"

namespace penstock {

namespace {

/// A unit with less is no reason to look beyond the chain.
constexpr double min_share = 1.0 / 64;

ModelChain units_of(const Graph& model, const Analysis& analysis) {
  std::vector<int> units = branch_units(model, analysis);
  const int count = units.empty() ? 0 : 1 + *std::ranges::max_element(units);
  return {model, analysis, std::move(units), count};
}

/// Seconds of each unit, at the largest microbatch size that was measured.
std::vector<double> loads(const ModelChain& units, const Profile& profile) {
  const ChainCosts costs = units.costs(profile, profile.microbatches.back(), Link{}, Link{}, 1);
  std::vector<double> load = costs.forward_s;
  for (size_t unit = 0; unit < load.size(); ++unit) load[unit] += costs.backward_s[unit];
  return load;
}

/// Which units each one depends on, directly or not; units are in a topological order.
std::vector<std::vector<char>> ancestors(const std::vector<Branches::Edge>& edges, int units) {
  const auto count = static_cast<size_t>(units);
  std::vector<std::vector<char>> before(count, std::vector<char>(count, 0));
  for (size_t unit = 0; unit < count; ++unit) {
    for (const Branches::Edge& edge : edges) {
      if (edge.to != static_cast<int>(unit)) continue;
      const auto from = static_cast<size_t>(edge.from);
      before[unit][from] = 1;
      for (size_t other = 0; other < from; ++other) before[unit][other] |= before[from][other];
    }
  }
  return before;
}

bool worthwhile(const std::vector<Branches::Edge>& edges, const std::vector<double>& load) {
  const int units = static_cast<int>(load.size());
  const double least = min_share * std::accumulate(load.begin(), load.end(), 0.0);
  const auto before = ancestors(edges, units);
  for (size_t unit = 0; unit < load.size(); ++unit) {
    for (size_t other = 0; other < unit; ++other) {
      if (load[unit] >= least && load[other] >= least && !before[unit][other]) return true;
    }
  }
  return false;
}

}  // namespace

Branches::Branches(const Graph& model, const Analysis& analysis, const Profile& profile,
                   size_t limit)
    : units_(units_of(model, analysis)) {
  for (const StageEdge& edge : units_.slicing().edges) {
    const bool gradient = std::ranges::any_of(edge.values, &Crossing::carries_gradient);
    edges_.push_back({edge.producer, edge.consumer, gradient});
  }
  if (!worthwhile(edges_, loads(units_, profile))) return;
  Dag dag{.nodes = units_.units(), .edges = {}};
  for (const Edge& edge : edges_) dag.edges.emplace_back(edge.from, edge.to);
  Downsets all(dag, limit);
  if (!all.complete()) return;
  const auto count = static_cast<size_t>(all.count());
  grown_.resize(count - 1);
  size_.resize(count);
  above_.resize(count);
  for (int set = 0; set < all.count(); ++set) {
    size_[static_cast<size_t>(set)] = static_cast<int>(all.nodes(set).size());
    for (const Downsets::Step& step : all.above(set)) {
      grown_[static_cast<size_t>(step.downset) - 1] = {set, step.node};
    }
    std::vector<int>& larger = above_[static_cast<size_t>(set)];
    all.walk_up(
        set,
        [&](const Downsets::Step& step) {
          larger.push_back(step.downset);
          return true;
        },
        [](const Downsets::Step&) {});
    std::ranges::sort(larger);
  }
  downsets_ = std::move(all);
}

std::vector<int> Branches::above(int begin, int units_left) const {
  std::vector<int> result;
  for (const int end : above_[static_cast<size_t>(begin)]) {
    if (units_.units() - size_[static_cast<size_t>(end)] >= units_left) result.push_back(end);
  }
  return result;
}

int64_t Branches::splits(int stages) const {
  std::vector<int64_t> ways(above_.size(), 0);  // from each downset on, in so many stages
  ways.back() = 1;
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<int64_t> longer(ways.size(), 0);
    for (size_t set = 0; set < ways.size(); ++set) {
      for (const int end : above_[set]) {
        if (__builtin_add_overflow(longer[set], ways[static_cast<size_t>(end)], &longer[set]))
          return INT64_MAX;
      }
    }
    ways = std::move(longer);
  }
  return ways.front();
}

std::vector<int> Branches::stage_of_unit(const std::vector<int>& begins) const {
  std::vector<int> stages(static_cast<size_t>(units_.units()), 0);
  for (int unit = 0; unit < units_.units(); ++unit) {
    int& stage = stages[static_cast<size_t>(unit)];
    while (static_cast<size_t>(stage) + 1 < begins.size() &&
           !downsets_->contains(begins[static_cast<size_t>(stage) + 1], unit)) {
      ++stage;
    }
  }
  return stages;
}

}  // namespace penstock
