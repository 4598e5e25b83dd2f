// DAPPLE's objective.
#include "bench/planner/dapple/dapple.hpp"

#include <algorithm>
#include <numeric>

#include "bench/planner/dapple/terms.hpp"
#include "bench/planner/layers.hpp"

namespace penstock::bench {

namespace {

constexpr double on_machine = 25e9, between_machines = 1e9, collective_between = 3e9;  // bytes/s

int machines_of(const std::vector<int>& devices) {
  return static_cast<int>(std::ranges::count_if(devices, [](int count) { return count > 0; }));
}

}  // namespace

int device_count(const std::vector<int>& devices) {
  return std::accumulate(devices.begin(), devices.end(), 0);
}

double transfer_s(const std::vector<int>& from, const std::vector<int>& to, double bytes) {
  if (machines_of(to) > 1) return bytes / collective_between;
  int elsewhere = 0;
  for (size_t i = 0; i < from.size(); ++i)
    if (to[i] == 0) elsewhere += from[i];
  if (elsewhere == 0) return bytes / on_machine;
  return bytes / device_count(from) * elsewhere / between_machines;
}

double all_reduce_s(const std::vector<int>& devices, double bytes) {
  const int count = device_count(devices);
  if (count == 1) return 0;
  const double moved = bytes * 2 * (count - 1) / count;
  const int pairs = count / 2;
  return machines_of(devices) > 1 ? moved / collective_between : moved / (on_machine * pairs);
}

DappleModel dapple_model(const LayerGraph& graph, const DappleSetting& setting) {
  const double scale = static_cast<double>(setting.batch) / setting.profile_batch;
  DappleModel model;
  for (const LayerSums& prefix : sums(graph, Downsets(graph.dag, 1))) {  // along one order
    model.compute_s.push_back(scale * prefix.compute_s);
    model.parameter_bytes.push_back(prefix.parameter_bytes);
    model.cut_bytes.push_back(scale * prefix.output_bytes);
  }
  return model;
}

double stage_reduce_s(const DappleModel& model, const DappleSetting& setting,
                      const DappleStage& stage) {
  const int end = std::min(stage.end + (setting.reduces_next_layer ? 1 : 0), model.layers());
  return all_reduce_s(stage.devices,
                      model.parameter_bytes[end] - model.parameter_bytes[stage.begin]);
}

double dapple_speedup(const DappleModel& model, const DappleSetting& setting,
                      const DapplePlan& plan) {
  const int microbatches = setting.batch / plan.replicas / setting.profile_batch;
  if (microbatches == 0) return 0;
  const bool halves = plan.stages.size() == 2 && plan.replicas == 1;
  const double all_s = model.compute_s.back();
  double longest_s = 0, moved_s = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const DappleStage& stage = plan.stages[i];
    const double compute_s = model.compute_s[stage.end] - model.compute_s[stage.begin];
    longest_s = std::max(longest_s, compute_s / device_count(stage.devices));
    if (i == 0) continue;
    const double cut_s =
        transfer_s(plan.stages[i - 1].devices, stage.devices, model.cut_bytes[stage.begin]);
    longest_s = std::max(longest_s, (halves ? 1 : 2) * cut_s);
    moved_s += cut_s / plan.replicas / microbatches;
  }
  const double block_s = longest_s / microbatches;
  double reduce_s = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i)
    reduce_s = std::max(reduce_s, stage_reduce_s(model, setting, plan.stages[i]) -
                                      static_cast<double>(i) * block_s);
  return all_s /
         (block_s * (microbatches - 1) + all_s / plan.replicas / microbatches + moved_s + reduce_s);
}

}  // namespace penstock::bench
