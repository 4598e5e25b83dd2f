#include "tests/planner/synthetic_profile.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "graph/analysis/analysis.hpp"
#include "graph/cuts/cuts.hpp"
#include "graph/operators/facts.hpp"
#include "graph/operators/flops.hpp"

namespace penstock::test {

namespace {

Measured measured(double seconds, double host_s = 0) {
  return {seconds, seconds, 0.02 * seconds, 10, host_s};
}

ActionTimes action_times(double forward_s, bool gradient, double host_s) {
  const double backward_s = gradient ? forward_s : 0, back_host_s = gradient ? host_s : 0;
  return {measured(forward_s, host_s), measured(2 * backward_s, 2 * back_host_s),
          measured(backward_s, back_host_s), measured(backward_s, back_host_s)};
}

OperatorCost operator_cost(const Graph& model, const Analysis& analysis, const Operator& op,
                           int64_t microbatch, const SyntheticDevice& device) {
  OperatorCost cost;
  cost.name = op.name;
  cost.target = full_name(op);
  cost.module = op.modules.empty() ? "" : op.modules.back();
  cost.flops = forward_flops(model, op, microbatch);
  cost.bytes = forward_bytes(model, op, microbatch);
  bool gradient = false;
  for (const ValueId value : op.outputs) {
    if (value < 0) continue;
    gradient = gradient || analysis.requires_grad[value];
    if (!is_view(op)) cost.held.output += model.values[value].bytes(microbatch);
  }
  cost.times = action_times(
      cost.flops / device.flops_per_s + cost.bytes / device.bytes_per_s + device.operator_s,
      gradient, device.host_s);
  // Each operator keeps what it makes (also constants, which stages share); views keep nothing.
  const int64_t output = cost.held.output;
  cost.held.forward = {output, output + output / 2};
  cost.held.backward = {-output, 2 * output};
  cost.held.backward_input = {0, 2 * output};
  cost.held.backward_weight = {-output, 2 * output};
  const int reads = static_cast<int>(op.reads().size());
  for (int made = 0; made < static_cast<int>(op.outputs.size()); ++made) {
    if (op.outputs[static_cast<size_t>(made)] < 0) continue;
    if (!is_view(op)) cost.values.keeps.push_back(reads + made);
    if (is_view(op) && reads > 0) cost.values.shares.emplace_back(reads + made, 0);
  }
  return cost;
}

MicrobatchCosts microbatch_costs(const Graph& model, int64_t microbatch,
                                 const SyntheticDevice& device) {
  const Analysis analysis = analyse(model);
  MicrobatchCosts costs;
  costs.microbatch = microbatch;
  for (const Operator& op : model.operators)
    costs.operators.push_back(operator_cost(model, analysis, op, microbatch, device));
  for (const Unit& unit : units(model, analysis)) {
    UnitCost& out = costs.units.emplace_back();
    out.label = unit.label;
    out.begin = unit.begin;
    out.end = unit.end;
    double forward_s = 0, host_s = 0;
    HeldSums sums;
    for (int id = unit.begin; id < unit.end; ++id) {
      forward_s += costs.operators[id].times.forward.mean_s;
      host_s += costs.operators[id].times.forward.host_s;
      sums.add(costs.operators[id].held);
    }
    out.held = {0, sums.forward, sums.backward, sums.backward_input, sums.backward_weight};
    out.times = action_times(forward_s, true, host_s);
  }
  costs.loss_forward = measured(1e-5, device.host_s);
  costs.first_microbatch_excess = microbatch == 2 ? -0.1 : 0.15;  // measured, it can be below 0
  costs.load_batch_s = 2e-5;
  return costs;
}

}  // namespace

Profile synthetic_profile(const Graph& model, const std::vector<int64_t>& sizes,
                          int64_t global_batch, const SyntheticDevice& device) {
  Profile profile;
  profile.job.model = model.path;
  profile.job.loss = Loss::cross_entropy;
  profile.job.optimizer.kind = OptimizerSpec::Kind::adamw;
  profile.job.global_batch = global_batch;
  profile.model_sha256 = model.sha256;
  profile.device.name = "made-up";
  profile.device.memory_bytes = device.memory_bytes;
  for (const int64_t size : sizes)
    profile.microbatches.push_back(microbatch_costs(model, size, device));
  std::ranges::sort(profile.microbatches, {}, &MicrobatchCosts::microbatch);
  profile.accumulate_s_per_byte = 1e-10;
  profile.optimizer_s_per_byte = 1e-9;
  profile.optimizer_s_per_tensor = 1e-6;
  profile.zero_s_per_byte = 1e-10;
  profile.action_overhead_s = 1e-5;
  profile.action_host_s = device.host_s;
  LinkCost& link = profile.links.emplace_back();
  link.kind = "gloo";
  link.latency_s = device.link_latency_s;
  link.bandwidth = device.link_bytes_per_s;
  link.sender_s_per_byte = 4e-10;
  link.receiver_s_per_byte = 4e-10;
  return profile;
}

Profile written(Profile profile, const std::filesystem::path& path) {
  profile.path = path.string();
  write_file(path, to_json(profile, path));
  return read_profile(path);
}

}  // namespace penstock::test
