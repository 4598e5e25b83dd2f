// A dynamic programme: the least time of the stages so far, by downset done and workers used.
#include "bench/planner/pipedream.hpp"

#include <algorithm>
#include <iterator>

#include "bench/planner/infinite.hpp"
#include "bench/planner/layers.hpp"

namespace penstock::bench {

namespace {

class ReplicationSearch {
 public:
  ReplicationSearch(const LayerGraph& graph, const PipeDreamSetting& setting, Downsets& downsets)
      : setting_(setting),
        downsets_(downsets),
        sums_(sums(graph, downsets)),
        best_(static_cast<size_t>(downsets.count()) * (static_cast<size_t>(setting.workers) + 1)) {}

  /// The least time, if it is at most `bound_s`; else infinite.
  double solve(double bound_s) {
    at(downsets_.empty(), 0).time_s = 0;
    for (int from = 0; from < downsets_.count(); ++from) {
      live_.clear();
      for (int used = 0; used < setting_.workers; ++used)
        if (at(from, used).time_s < infinite) live_.push_back(used);
      if (live_.empty()) continue;
      downsets_.walk_up(
          from, [&](const Downsets::Step& step) { return extend(from, step.downset, bound_s); },
          [](const Downsets::Step&) {});
    }
    return at(downsets_.full(), setting_.workers).time_s;
  }

  std::vector<ReplicatedStage> stages() const {
    std::vector<ReplicatedStage> result;
    int set = downsets_.full(), used = setting_.workers;
    while (set != downsets_.empty()) {
      const Cell& now = at(set, used);
      const std::vector<int> all = downsets_.nodes(set);
      ReplicatedStage& stage = result.emplace_back();
      stage.replicas = now.replicas;
      std::ranges::copy_if(all, std::back_inserter(stage.layers),
                           [&](int layer) { return !downsets_.contains(now.from, layer); });
      used -= now.replicas;
      set = now.from;
    }
    std::ranges::reverse(result);
    return result;
  }

 private:
  struct Cell {
    double time_s = infinite;
    int from = -1, replicas = 0;
  };
  Cell& at(int set, int used) {
    return best_[static_cast<size_t>(set) * (static_cast<size_t>(setting_.workers) + 1) +
                 static_cast<size_t>(used)];
  }
  const Cell& at(int set, int used) const {
    return const_cast<ReplicationSearch*>(this)->at(set, used);
  }

  double stage_s(int from, int to, int replicas) const {
    const LayerSums &before = sums_[from], &after = sums_[to];
    const double rate = setting_.bytes_per_s * replicas;
    const double synchronize_s =
        4.0 * (replicas - 1) * (after.parameter_bytes - before.parameter_bytes) / rate;
    double time_s = (after.compute_s - before.compute_s + synchronize_s) / replicas;
    if (from == downsets_.empty()) return time_s;
    time_s = std::max(time_s, 2 * before.output_bytes / rate);
    return to == downsets_.full() ? time_s : std::max(time_s, 2 * after.output_bytes / rate);
  }

  /// Adds the stage between the two; says whether a larger stage can fit the bound.
  bool extend(int from, int to, double bound_s) {
    const double compute_s = sums_[to].compute_s - sums_[from].compute_s;
    for (int replicas = 1; replicas <= setting_.workers - live_.front(); ++replicas) {
      if (compute_s > bound_s * replicas) continue;
      const double time_s = stage_s(from, to, replicas);
      if (time_s > bound_s) continue;
      for (const int used : live_) {
        if (used + replicas > setting_.workers) break;
        const double longest_s = std::max(at(from, used).time_s, time_s);
        Cell& cell = at(to, used + replicas);
        if (longest_s < cell.time_s) cell = {longest_s, from, replicas};
      }
    }
    return compute_s <= bound_s * setting_.workers;
  }

  const PipeDreamSetting& setting_;
  Downsets& downsets_;
  std::vector<LayerSums> sums_;  // by downset
  std::vector<Cell> best_;       // by downset, then workers used
  std::vector<int> live_;        // workers used, ascending, on ways to the downset walked from
};

}  // namespace

PipeDreamPlan solve_pipedream(const LayerGraph& graph, const PipeDreamSetting& setting,
                              size_t downset_limit) {
  // A stage's sums are differences of a downset's, the same on every way: the bound loses nothing.
  Downsets chain(graph.dag, 1), downsets(graph.dag, downset_limit);
  PipeDreamPlan plan{.downsets = downsets.count(), .exact = downsets.complete()};
  if (graph.layers.empty()) return plan;
  const double bound_s = ReplicationSearch(graph, setting, chain).solve(infinite);
  ReplicationSearch search(graph, setting, downsets);
  plan.batch_s = search.solve(bound_s);
  plan.stages = search.stages();
  return plan;
}

}  // namespace penstock::bench
