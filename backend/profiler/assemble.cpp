#include "backend/profiler/assemble.hpp"

#include <span>
#include <utility>

#include "backend/profiler/grouping.hpp"
#include "graph/operators/facts.hpp"
#include "graph/operators/flops.hpp"

namespace penstock::profiler {
namespace {

/// Bytes that operators [begin, end) produce and operators from `end` on read, or the model
/// returns.
int64_t output_bytes(const Graph& graph, const std::vector<std::vector<OperatorId>>& consumers,
                     OperatorId begin, OperatorId end, int64_t batch) {
  int64_t bytes = 0;
  for (OperatorId op = begin; op < end; ++op) {
    for (const ValueId value : graph.operators[op].outputs) {
      if (value < 0) continue;
      const bool leaves = consumers[value].empty() || consumers[value].back() >= end;
      if (leaves) bytes += graph.values[value].bytes(batch);
    }
  }
  return bytes;
}

OperatorCost describe(const Division& division, OperatorId id, int64_t batch) {
  const Operator& op = division.graph.operators[id];
  OperatorCost cost{.name = op.name,
                    .target = full_name(op),
                    .module = op.modules.empty() ? "" : op.modules.back(),
                    .flops = forward_flops(division.graph, op, batch),
                    .bytes = forward_bytes(division.graph, op, batch)};
  for (const ValueId value : op.outputs) {
    if (value >= 0) cost.held.output += division.graph.values[value].bytes(batch);
  }
  return cost;
}

/// Divides a group's times among its operators.
void share_out(const Division& division, OperatorId begin, OperatorId end, const StageCost& group,
               int64_t batch, std::vector<OperatorCost>& operators) {
  const auto shares = weights(division.graph, division.analysis, begin, end, batch);
  double sum = 0;
  for (const double share : shares) sum += share;
  for (OperatorId op = begin; op < end; ++op) {
    const size_t i = op - begin;
    const double share = sum > 0 ? shares[i] / sum : (i == 0 ? 1 : 0);
    OperatorCost cost = describe(division, op, batch);
    const Factor part{share, share};
    cost.times = scaled(group.times, {part, part, part, part});
    operators.push_back(std::move(cost));
  }
}

/// Appends the operators of a unit, whose groups are division.groups[first] and following.
void add_operators(const Division& division, const UnitCost& unit,
                   std::span<const StageCost> measured, size_t first, MicrobatchCosts& costs) {
  std::vector<StageCost> groups(measured.begin(), measured.end());
  const ScaleFactors to_unit = scale_factors(unit.times, groups);
  for (size_t g = 0; g < groups.size(); ++g) {
    groups[g].times = scaled(groups[g].times, to_unit);
    const OperatorId end = g + 1 < groups.size() ? division.groups[first + g + 1] : unit.end;
    share_out(division, division.groups[first + g], end, groups[g], costs.microbatch,
              costs.operators);
  }
}

}  // namespace

void add_memory(const MemoryTrace& memory, MicrobatchCosts& costs) {
  for (size_t op = 0; op < costs.operators.size(); ++op) {
    OperatorCost& cost = costs.operators[op];
    const int64_t output = std::exchange(cost.held, memory.held()[op]).output;
    cost.held.output = output;
    cost.values = memory.values()[op];
  }
  for (UnitCost& unit : costs.units) {
    HeldSums sums;
    for (OperatorId op = unit.begin; op < unit.end; ++op) sums.add(costs.operators[op].held);
    unit.held = {unit.held.output, sums.forward, sums.backward, sums.backward_input,
                 sums.backward_weight};
  }
}

ScaleFactors scale_factors(const ActionTimes& whole, const std::vector<StageCost>& parts) {
  const auto factor = [&](Measured ActionTimes::*action) {
    double device_s = 0, host_s = 0;
    for (const StageCost& part : parts) {
      device_s += (part.times.*action).mean_s;
      host_s += (part.times.*action).host_s;
    }
    return Factor{ratio((whole.*action).mean_s, device_s), ratio((whole.*action).host_s, host_s)};
  };
  return {factor(&ActionTimes::forward), factor(&ActionTimes::backward),
          factor(&ActionTimes::backward_input), factor(&ActionTimes::backward_weight)};
}

ActionTimes scaled(const ActionTimes& times, const ScaleFactors& factors) {
  return {scaled(times.forward, factors.forward), scaled(times.backward, factors.backward),
          scaled(times.backward_input, factors.backward_input),
          scaled(times.backward_weight, factors.backward_weight)};
}

MicrobatchCosts assemble(const Division& division, int64_t microbatch, const StageCost& whole,
                         const std::vector<StageCost>& units,
                         const std::vector<StageCost>& groups) {
  MicrobatchCosts costs{.microbatch = microbatch};
  const auto consumers = division.graph.consumers();
  const ScaleFactors to_whole = scale_factors(whole.times, units);
  size_t group = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    const Unit& unit = division.units[u];
    UnitCost cost{.label = unit.label,
                  .begin = unit.begin,
                  .end = unit.end,
                  .times = scaled(units[u].times, to_whole)};
    cost.held.output = output_bytes(division.graph, consumers, unit.begin, unit.end, microbatch);
    const size_t first = group;
    while (group < groups.size() && division.groups[group] < unit.end) ++group;
    add_operators(division, cost, std::span(groups).subspan(first, group - first), first, costs);
    costs.units.push_back(std::move(cost));
  }
  return costs;
}

}  // namespace penstock::profiler
