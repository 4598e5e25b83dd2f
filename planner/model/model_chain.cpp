#include "planner/model/model_chain.hpp"

#include <algorithm>
#include <set>

#include "pipeline/job/parameters.hpp"
#include "simulator/costs/collectives.hpp"
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

namespace {

using Backward = ModelChain::Backward;

void add_operators(const OperatorSums& sums, Backward backward, ChainCosts& costs) {
  costs.forward_s.push_back(sums.forward.device_s);
  if (backward == Backward::whole) {
    costs.backward_s.push_back(sums.backward.device_s);
  } else {
    costs.backward_s.push_back(sums.backward_input.device_s);
    costs.weight_s.push_back(sums.backward_weight.device_s);
  }
}

/// A host issues B, or I and W, or whichever of the two takes it less.
double unit_host_s(const OperatorSums& sums, Backward backward) {
  const double whole_s = sums.backward.host_s;
  const double parts_s = sums.backward_input.host_s + sums.backward_weight.host_s;
  const double backward_s = backward == Backward::whole   ? whole_s
                            : backward == Backward::split ? parts_s
                                                          : std::min(whole_s, parts_s);
  return sums.forward.host_s + backward_s;
}

/// A backward takes no less than the faster of B and I with W, and its I no less than the faster of
/// B and I.
void take_the_faster(const OperatorSums& sums, size_t unit, ChainCosts& costs) {
  double &input_s = costs.backward_s[unit], &weight_s = costs.weight_s[unit];
  costs.whole_s.push_back(sums.backward.device_s);
  costs.parts_s.push_back(input_s + weight_s);
  input_s = std::min(costs.whole_s[unit], input_s);
  weight_s = std::max(0.0, std::min(costs.whole_s[unit], costs.parts_s[unit]) - input_s);
}

}  // namespace

/// Sums of each unit's own operators.
std::vector<OperatorSums> ModelChain::unit_sums(const MicrobatchCosts& measured) const {
  std::vector<OperatorSums> sums(static_cast<size_t>(units()));
  for (int unit = 0; unit < units(); ++unit) {
    for (const OperatorId id : slicing_.stages[unit].operators) {
      if (slicing_.stage_of_operator[id] == unit) sums[unit].add(measured.operators[id]);
    }
    if (makes_loss(slicing_.stages[unit])) sums[unit].add_loss(measured);
  }
  return sums;
}

ChainCosts ModelChain::costs(const Profile& profile, const MicrobatchCosts& measured,
                             const Link& link, const Link& reduce, int stages, Backward backward,
                             SharingWays ways) const {
  ChainCosts costs;
  costs.reduce_s = reduce_s(profile.job, reduce, stages, ways);
  costs.propagation_s = link.propagation_s;
  const bool forward_only = profile.job.forward_only;
  if (!forward_only) {  // else half as many actions, whose overhead is left out
    costs.action_s = profile.action_overhead_s;
    costs.first_action_s = profile.action_overhead_s * measured.first_microbatch_excess;
    costs.host_actions_s = (backward == Backward::split ? 3 : 2) * profile.action_host_s;
  }
  if (backward == Backward::split) costs.weight_action_s = costs.action_s;
  const std::vector<OperatorSums> sums = unit_sums(measured);
  for (const OperatorSums& unit : sums) {
    add_operators(unit, backward, costs);
    costs.host_s.push_back(unit_host_s(unit, backward));
  }
  add_inputs(measured, costs);
  for (int unit = 0; unit < units(); ++unit) {
    const double weight_s = backward == Backward::whole ? 0.0 : costs.weight_s[unit];
    costs.first_forward_s.push_back(costs.forward_s[unit] * measured.first_microbatch_excess);
    costs.first_backward_s.push_back((costs.backward_s[unit] + weight_s) *
                                     measured.first_microbatch_excess);
  }
  for (size_t unit = 0; unit < sums.size() && backward == Backward::either; ++unit)
    take_the_faster(sums[unit], unit, costs);
  add_parameters(profile, ways, costs);
  for (int cut = 1; cut < units(); ++cut)
    add_cut(cut, measured.microbatch, link, forward_only, costs);
  return costs;
}

/// An input counts in the first unit that reads it: later ones may be of the same stage.
void ModelChain::add_inputs(const MicrobatchCosts& measured, ChainCosts& costs) const {
  std::set<ValueId> read;
  for (int unit = 0; unit < units(); ++unit) {
    const StageSlice& slice = slicing_.stages[unit];
    const auto inputs = static_cast<size_t>(std::ranges::count_if(
        slice.user_inputs, [&](ValueId input) { return read.insert(input).second; }));
    costs.forward_s[unit] += load_s(measured, model_, inputs, makes_loss(slice));
  }
}

/// Non-contiguous stages come in any order, and the first of them is the owner.
bool ModelChain::owner_unknown(int tensor, SharingWays ways) const {
  return ways.transmit && begins_.empty() && units_using_[tensor] > 1;
}

void ModelChain::add_parameters(const Profile& profile, SharingWays ways, ChainCosts& costs) const {
  std::set<int> updated;
  for (int unit = 0; unit < units(); ++unit) {
    int64_t trained_bytes = 0, cleared_bytes = 0;
    Stepped stepped;
    for (const int index : slicing_.stages[unit].tensors) {
      const StoredTensor& tensor = model_.tensors[index];
      if (!tensor.requires_grad) continue;
      trained_bytes += tensor.bytes();
      if (owner_unknown(index, ways) || !updated.insert(index).second) continue;
      cleared_bytes += tensor.bytes();
      if (ways.state_parts > 1 && units_using_[index] > 1) continue;
      ++stepped.tensors;
      stepped.bytes += tensor.bytes();
    }
    costs.first_backward_s[unit] -= accumulate_s(profile, trained_bytes);
    costs.optimizer_s.push_back(update_s(profile, stepped) / static_cast<double>(ways.state_parts) +
                                clear_s(profile, cleared_bytes));
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
/// back after OPT is left out, and so are latencies of sums, since one may sum several parameters.
double ModelChain::shared_s(const Link& link, int64_t bytes, int ranks, SharingWays ways) const {
  Link sums = link;
  sums.latency_s = 0;
  const double all_s = all_reduce_s(AllReduce::Algorithm::fastest, sums, bytes, ranks);
  const double replicate_s = ways.state_parts > 1 ? all_s / 2 : all_s;  // a reduce-scatter
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

void ModelChain::add_cut(int cut, int64_t microbatch, const Link& link, bool forward_only,
                         ChainCosts& costs) const {
  int64_t forward = 0, backward = 0;
  bool linked = false;
  for (const StageEdge& edge : slicing_.edges) {
    if (edge.producer != cut - 1 || edge.consumer != cut) continue;
    const FlowBytes flow = flow_bytes(model_, edge, microbatch);
    forward += flow.forward_bytes;
    backward += flow.backward_bytes;
    linked =
        linked || forward_only || std::ranges::any_of(edge.values, &Crossing::carries_gradient);
  }
  costs.linked.push_back(linked);
  costs.cut_forward_s.push_back(link.transfer_s(forward) + link.propagation_s);
  costs.cut_backward_s.push_back(forward_only ? 0.0
                                              : link.transfer_s(backward) + link.propagation_s);
  const auto down = static_cast<double>(forward), up = static_cast<double>(backward);
  costs.cut_compute.push_back({down * link.sender_s_per_byte, up * link.receiver_s_per_byte,
                               down * link.receiver_s_per_byte, up * link.sender_s_per_byte});
}

}  // namespace penstock
