#include "planner/model/model_chain.hpp"

#include <algorithm>
#include <set>

#include "pipeline/job/parameters.hpp"
#include "simulator/costs/all_reduce.hpp"
#include "simulator/costs/plan_costs.hpp"

namespace penstock {

ModelChain::ModelChain(const Graph& model, const Analysis& analysis, std::vector<OperatorId> begins)
    : model_(model), begins_(std::move(begins)) {
  const int count = static_cast<int>(begins_.size());
  slicing_ = slice(model, analysis, interval_stages(model, begins_), count);
  count_users();
}

ModelChain::ModelChain(const Graph& model, const Analysis& analysis,
                       std::vector<int> unit_of_operator, int units)
    : model_(model), slicing_(slice(model, analysis, std::move(unit_of_operator), units)) {
  count_users();
}

void ModelChain::count_users() {
  units_using_.assign(model_.tensors.size(), 0);
  first_using_.assign(model_.tensors.size(), 0);
  for (int unit = 0; unit < units(); ++unit) {
    for (const int tensor : slicing_.stages[unit].tensors) {
      if (units_using_[tensor]++ == 0) first_using_[tensor] = unit;
    }
  }
}

std::vector<int> ModelChain::stage_of_unit(const std::vector<int>& first_units) const {
  std::vector<int> stages(static_cast<size_t>(units()), 0);
  for (size_t stage = 1; stage < first_units.size(); ++stage)
    std::fill(stages.begin() + first_units[stage], stages.end(), static_cast<int>(stage));
  return stages;
}

std::vector<int> ModelChain::operators(const std::vector<int>& stage_of_unit) const {
  std::vector<int> stages;
  stages.reserve(slicing_.stage_of_operator.size());
  for (const int unit : slicing_.stage_of_operator) stages.push_back(stage_of_unit[unit]);
  return stages;
}

bool ModelChain::makes_loss(int unit) const {
  const std::vector<int>& outputs = slicing_.stages[unit].outputs;
  return std::find(outputs.begin(), outputs.end(), 0) != outputs.end();
}

ChainCosts ModelChain::costs(const Profile& profile, const MicrobatchCosts& measured,
                             const Link& link, const Link& reduce, int stages, Backward backward,
                             SharingWays ways) const {
  ChainCosts costs;
  costs.reduce_s = reduce_s(profile.job, reduce, stages, ways);
  costs.action_s = profile.action_overhead_s;
  costs.first_action_s = profile.action_overhead_s * measured.first_microbatch_excess;
  costs.propagation_s = link.propagation_s;
  costs.forward_s.assign(units(), 0.0);
  costs.backward_s.assign(units(), 0.0);
  if (backward != Backward::whole) costs.weight_s.assign(units(), 0.0);
  if (backward == Backward::split) costs.weight_action_s = costs.action_s;
  for (int unit = 0; unit < units(); ++unit) add_operators(unit, measured, costs);
  add_inputs(measured, costs);
  for (int unit = 0; unit < units(); ++unit) {
    const double weight_s = backward == Backward::whole ? 0.0 : costs.weight_s[unit];
    costs.first_forward_s.push_back(costs.forward_s[unit] * measured.first_microbatch_excess);
    costs.first_backward_s.push_back((costs.backward_s[unit] + weight_s) *
                                     measured.first_microbatch_excess);
  }
  if (backward == Backward::either) take_the_faster(measured, costs);
  add_parameters(profile, ways, costs);
  add_hosts(profile, measured, backward, costs);
  for (int cut = 1; cut < units(); ++cut) add_cut(cut, measured.microbatch, link, costs);
  return costs;
}

void ModelChain::add_operators(int unit, const MicrobatchCosts& measured, ChainCosts& costs) const {
  for (const OperatorId id : slicing_.stages[unit].operators) {
    if (slicing_.stage_of_operator[id] != unit) continue;
    const ActionTimes& times = measured.operators[id].times;
    costs.forward_s[unit] += times.forward.mean_s;
    if (costs.weight_s.empty()) {
      costs.backward_s[unit] += times.backward.mean_s;
    } else {
      costs.backward_s[unit] += times.backward_input.mean_s;
      costs.weight_s[unit] += times.backward_weight.mean_s;
    }
  }
  if (makes_loss(unit)) costs.forward_s[unit] += measured.loss_forward.mean_s;
}

/// A host issues B, or I and W, or whichever of the two takes it less.
void ModelChain::add_hosts(const Profile& profile, const MicrobatchCosts& measured,
                           Backward backward, ChainCosts& costs) const {
  costs.host_actions_s = (backward == Backward::split ? 3 : 2) * profile.action_host_s;
  for (int unit = 0; unit < units(); ++unit) {
    double forward_s = makes_loss(unit) ? measured.loss_forward.host_s : 0, whole_s = 0,
           parts_s = 0;
    for (const OperatorId id : slicing_.stages[unit].operators) {
      if (slicing_.stage_of_operator[id] != unit) continue;
      const ActionTimes& times = measured.operators[id].times;
      forward_s += times.forward.host_s;
      whole_s += times.backward.host_s;
      parts_s += times.backward_input.host_s + times.backward_weight.host_s;
    }
    const double either_s = std::min(whole_s, parts_s);
    const double backward_s = backward == Backward::whole   ? whole_s
                              : backward == Backward::split ? parts_s
                                                            : either_s;
    costs.host_s.push_back(forward_s + backward_s);
  }
}

/// A backward takes no less than the faster of B and I with W, and its I no less than the faster of
/// B and I.
void ModelChain::take_the_faster(const MicrobatchCosts& measured, ChainCosts& costs) const {
  for (int unit = 0; unit < units(); ++unit) {
    double whole_s = 0;
    for (const OperatorId id : slicing_.stages[unit].operators) {
      if (slicing_.stage_of_operator[id] != unit) continue;
      whole_s += measured.operators[id].times.backward.mean_s;
    }
    const double both_s = std::min(whole_s, costs.backward_s[unit] + costs.weight_s[unit]);
    costs.backward_s[unit] = std::min(whole_s, costs.backward_s[unit]);
    costs.weight_s[unit] = std::max(0.0, both_s - costs.backward_s[unit]);
  }
}

/// Reading a microbatch is shared out over inputs and target, each to those who read it.
void ModelChain::add_inputs(const MicrobatchCosts& measured, ChainCosts& costs) const {
  const double share_s = measured.load_batch_s / static_cast<double>(model_.inputs.size() + 1);
  std::set<ValueId> read;
  for (int unit = 0; unit < units(); ++unit) {
    for (const ValueId input : slicing_.stages[unit].user_inputs) {
      if (read.insert(input).second) costs.forward_s[unit] += share_s;
    }
    if (makes_loss(unit)) costs.forward_s[unit] += share_s;
  }
}

/// Stages of units that are no intervals come in any order, and the first of them is the owner.
bool ModelChain::owner_unknown(int tensor, SharingWays ways) const {
  return ways.transmit && begins_.empty() && units_using_[tensor] > 1;
}

void ModelChain::add_parameters(const Profile& profile, SharingWays ways, ChainCosts& costs) const {
  costs.optimizer_s.assign(units(), 0.0);
  std::set<int> updated;
  for (int unit = 0; unit < units(); ++unit) {
    for (const int index : slicing_.stages[unit].tensors) {
      const StoredTensor& tensor = model_.tensors[index];
      if (!tensor.requires_grad) continue;
      const auto bytes = static_cast<double>(tensor.bytes());
      costs.first_backward_s[unit] -= profile.accumulate_s_per_byte * bytes;
      if (owner_unknown(index, ways) || !updated.insert(index).second) continue;
      costs.optimizer_s[unit] += (profile.optimizer_s_per_byte + profile.zero_s_per_byte) * bytes;
    }
  }
}

std::vector<int64_t> ModelChain::gradient_bytes(const Job& job, SharingWays ways) const {
  std::vector<int64_t> bytes(static_cast<size_t>(units()), 0);
  std::set<int> seen;
  for (int unit = 0; unit < units(); ++unit) {
    for (const int index : slicing_.stages[unit].tensors) {
      if (owner_unknown(index, ways) || !seen.insert(index).second) continue;
      bytes[unit] += penstock::gradient_bytes(job, model_.tensors[index]);
    }
  }
  return bytes;
}

/// At least, of the REDUCE_GRAD of the first of so many ranks that share so many bytes: what comes
/// back after OPT is left out.
double ModelChain::shared_s(const Link& link, int64_t bytes, int ranks, SharingWays ways) const {
  const double replicate_s = all_reduce_s(AllReduce::Algorithm::fastest, link, bytes, ranks);
  const double transmit_s = (ranks - 1) * link.transfer_s(bytes);
  if (!ways.transmit) return replicate_s;
  return ways.replicate ? std::min(replicate_s, transmit_s) : transmit_s;
}

/// Parameters of the first unit that the last one has too are always held by two ranks or more;
/// where every unit is a stage, all holders are known.
double ModelChain::reduce_s(const Job& job, const Link& link, int stages, SharingWays ways) const {
  double sum_s = 0;
  for (const Slicing::Shared& shared : slicing_.shared) {
    const bool first = shared.stages.front() == 0, last = shared.stages.back() == units() - 1;
    const int64_t bytes = penstock::gradient_bytes(job, model_.tensors[shared.tensor]);
    if (stages == units() && first)
      sum_s += shared_s(link, bytes, static_cast<int>(shared.stages.size()), ways);
    else if (stages > 1 && first && last)
      sum_s += shared_s(link, bytes, 2, ways);
  }
  return sum_s;
}

void ModelChain::add_cut(int cut, int64_t microbatch, const Link& link, ChainCosts& costs) const {
  int64_t forward = 0, backward = 0;
  bool gradient = false;
  for (const StageEdge& edge : slicing_.edges) {
    if (edge.producer != cut - 1 || edge.consumer != cut) continue;
    for (const Crossing& crossing : edge.values) {
      const int64_t bytes = model_.values[crossing.value].bytes(microbatch);
      forward += bytes;
      gradient = gradient || crossing.carries_gradient;
      if (crossing.carries_gradient) backward += bytes;
    }
  }
  costs.linked.push_back(gradient);
  costs.cut_forward_s.push_back(link.transfer_s(forward) + link.propagation_s);
  costs.cut_backward_s.push_back(link.transfer_s(backward) + link.propagation_s);
  const auto down = static_cast<double>(forward), up = static_cast<double>(backward);
  costs.cut_compute.push_back({down * link.sender_s_per_byte, up * link.receiver_s_per_byte,
                               down * link.receiver_s_per_byte, up * link.sender_s_per_byte});
}

}  // namespace penstock
