// DAPPLE's plans, stage by stage, depth first; a beginning is dropped where a lower bound of its
// pipeline's length is no better than the best plan found.
#include <algorithm>

#include "bench/planner/dapple/terms.hpp"

namespace penstock::bench {

namespace {

class PlanSearch {
 public:
  PlanSearch(const DappleModel& model, const DappleSetting& setting, long max_steps)
      : model_(model), setting_(setting), steps_left_(max_steps) {}

  void search(int devices, int replicas, size_t max_stages) {
    plan_ = {.replicas = replicas};
    max_stages_ = max_stages;
    microbatches_ = setting_.batch / replicas / setting_.profile_batch;
    if (microbatches_ == 0) return;
    extend(0, devices, std::vector<int>(setting_.machines.size()), {});
  }

  const DappleResult& best() const { return best_; }

 private:
  struct Sums {
    double longest_s = 0, moved_s = 0;  // B so far; transfers in the ramp
  };

  /// With B at least what the stages so far and the rest, were it spread evenly, take. A larger B
  /// lets the all-reduce of stage i begin earlier by i B/M, but costs (M - 1)/M B: it shortens no
  /// length in which only stages up to M - 1 count.
  double shortest_s(const Sums& sums, int begin, int devices) const {
    const double rest_s = model_.compute_s.back() - model_.compute_s[begin];
    double longest_s = sums.longest_s;
    if (devices > 0) longest_s = std::max(longest_s, rest_s / (devices * plan_.replicas));
    const double block_s = longest_s / microbatches_;
    double reduce_s = 0;
    for (size_t i = 0; i < plan_.stages.size() && static_cast<int>(i) < microbatches_; ++i)
      reduce_s = std::max(reduce_s, stage_reduce_s(model_, setting_, plan_.stages[i]) -
                                        static_cast<double>(i) * block_s);
    return block_s * (microbatches_ - 1) +
           model_.compute_s.back() / plan_.replicas / microbatches_ + sums.moved_s + reduce_s;
  }

  /// Whether the stages so far can begin a better plan.
  bool promising(const Sums& sums, int begin, int devices) const {
    return best_.speedup == 0 ||
           model_.compute_s.back() / best_.speedup > shortest_s(sums, begin, devices);
  }

  void extend(int begin, int devices, const std::vector<int>& used, const Sums& sums) {
    const bool is_last = plan_.stages.size() + 1 == max_stages_ || devices == 1;
    for (int end = is_last ? model_.layers() : begin + 1; end <= model_.layers(); ++end) {
      const bool all = end == model_.layers();
      for (int count = all ? devices : 1; count <= devices - (all ? 0 : 1); ++count) {
        for (const auto& way : dapple_placements(setting_.machines, used, count, plan_.replicas))
          put({begin, end, way}, devices - count, used, sums);
      }
    }
  }

  void put(const DappleStage& stage, int devices, std::vector<int> used, Sums sums) {
    if (--steps_left_ < 0) {
      best_.exact = false;
      return;
    }
    add(stage, sums);
    plan_.stages.push_back(stage);
    if (promising(sums, stage.end, devices)) {
      for (size_t i = 0; i < used.size(); ++i) used[i] += stage.devices[i];
      if (stage.end == model_.layers())
        keep();
      else
        extend(stage.end, devices, used, sums);
    }
    plan_.stages.pop_back();
  }

  void add(const DappleStage& stage, Sums& sums) const {
    const double compute_s = model_.compute_s[stage.end] - model_.compute_s[stage.begin];
    sums.longest_s = std::max(sums.longest_s, compute_s / device_count(stage.devices));
    if (plan_.stages.empty()) return;
    const double cut_s =
        transfer_s(plan_.stages.back().devices, stage.devices, model_.cut_bytes[stage.begin]);
    // Two stages without replicas count a transfer once; of a longer plan that is a lower bound.
    const bool halves = plan_.replicas == 1 && plan_.stages.size() == 1;
    sums.longest_s = std::max(sums.longest_s, (halves ? 1 : 2) * cut_s);
    sums.moved_s += cut_s / plan_.replicas / microbatches_;
  }

  void keep() {
    const double speedup = dapple_speedup(model_, setting_, plan_);
    if (speedup <= best_.speedup) return;
    best_.speedup = speedup;
    best_.plan = plan_;
  }

  const DappleModel& model_;
  const DappleSetting& setting_;
  long steps_left_;
  size_t max_stages_ = 0;
  int microbatches_ = 0;
  DapplePlan plan_;
  DappleResult best_;
};

}  // namespace

DappleResult solve_dapple(const DappleModel& model, const DappleSetting& setting, long max_steps) {
  PlanSearch search(model, setting, max_steps);
  const int all = device_count(setting.machines);
  // Plans of few stages first: they are few, and good ones among them shorten the rest.
  for (const size_t stages : {size_t{2}, static_cast<size_t>(std::max(all, 2))})
    for (int devices = std::min(all, 2); devices <= all; ++devices)
      search.search(devices, all / devices, stages);
  return search.best();
}

}  // namespace penstock::bench
