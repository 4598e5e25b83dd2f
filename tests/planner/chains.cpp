#include "tests/planner/chains.hpp"
#include "tests/pipeline/in_flight.hpp"

#include <numeric>

#include "pipeline/program/lowering.hpp"
#include "pipeline/program/schedule.hpp"
#include "planner/splits/launch_space.hpp"
#include "simulator/adaptive/adaptive.hpp"

namespace penstock::test {

namespace {

std::vector<int> ends_of(const std::vector<int>& begins, int units) {
  std::vector<int> ends(begins.begin() + 1, begins.end());
  ends.push_back(units);
  return ends;
}

}  // namespace

std::vector<std::vector<int>> all_splits(int units, int ranks) {
  std::vector<std::vector<int>> splits;
  std::vector<int> begins(static_cast<size_t>(ranks));
  std::iota(begins.begin(), begins.end(), 0);
  while (true) {
    splits.push_back(begins);
    int rank = ranks - 1;
    while (rank > 0 && begins[rank] == units - ranks + rank) --rank;
    if (rank <= 0) return splits;
    ++begins[rank];
    for (int later = rank + 1; later < ranks; ++later) begins[later] = begins[later - 1] + 1;
  }
}

Costs stage_costs(const Chain& chain, const std::vector<int>& begins, bool split) {
  const ChainCosts& units = chain.costs;
  const std::vector<int> ends = ends_of(begins, units.units());
  Costs costs;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    StageCosts& out = costs.stages.emplace_back();
    out.forward_s = out.backward_s = units.action_s;
    out.backward_input_s = out.backward_weight_s = units.action_s;
    out.first_forward_s = out.first_backward_s = units.first_action_s;
    for (int unit = begins[stage]; unit < ends[stage]; ++unit) {
      out.forward_s += units.forward_s[unit];
      out.backward_s += units.backward_s[unit];
      out.backward_input_s += chain.input_s[unit];
      out.backward_weight_s += chain.weight_s[unit];
      if (!units.first_forward_s.empty()) out.first_forward_s += units.first_forward_s[unit];
      if (!units.first_backward_s.empty()) out.first_backward_s += units.first_backward_s[unit];
      if (!units.optimizer_s.empty()) out.optimizer_s += units.optimizer_s[unit];
      if (!chain.forward_host_s.empty()) {
        out.forward_host_s += chain.forward_host_s[unit];
        out.backward_host_s += chain.backward_host_s[unit];
        out.backward_input_host_s += chain.input_host_s[unit];
        out.backward_weight_host_s += chain.weight_host_s[unit];
      }
      out.fixed_bytes += chain.fixed_bytes[unit];
      out.saved_bytes += chain.saved_bytes[unit];
    }
    if (split) out.first_backward_s += units.first_action_s;  // the overhead of I and of W
    const double min_s = split ? std::min(out.backward_input_s, out.backward_s) : out.backward_s;
    out.first_backward_s = std::max(out.first_backward_s, -min_s);
    if (stage == 0) continue;
    const int cut = begins[stage] - 1;
    const int at = static_cast<int>(stage);
    costs.flows.push_back({at - 1, at, chain.forward_bytes[cut], chain.backward_bytes[cut]});
  }
  return costs;
}

Program compute_program(const std::string& schedule, int ranks, int microbatches,
                        int stages_per_rank) {
  return find_schedule(schedule, "test").generate({ranks, stages_per_rank, microbatches});
}

std::shared_ptr<const StageTable> bytes_of(const Chain& chain) {
  auto table = std::make_shared<StageTable>(chain.costs.units());
  for (int begin = 0; begin < table->units(); ++begin) {
    StageBytes bytes;
    for (int end = begin + 1; end <= table->units(); ++end) {
      bytes.always += chain.fixed_bytes[end - 1];
      bytes.per_microbatch += chain.saved_bytes[end - 1];
      table->at(begin, end) = bytes;
    }
  }
  return table;
}

ChainCosts split_costs(const Chain& chain, bool either) {
  ChainCosts costs = chain.costs;
  costs.weight_action_s = either ? 0 : costs.action_s;
  for (int unit = 0; unit < costs.units(); ++unit) {
    const double whole_s = costs.backward_s[unit];
    double input_s = chain.input_s[unit], weight_s = chain.weight_s[unit];
    if (either) {
      const double both_s = std::min(whole_s, input_s + weight_s);
      costs.whole_s.push_back(whole_s);
      costs.parts_s.push_back(input_s + weight_s);
      input_s = std::min(input_s, whole_s);
      weight_s = std::max(0.0, both_s - input_s);
    }
    costs.backward_s[unit] = input_s;
    costs.weight_s.push_back(weight_s);
    if (chain.forward_host_s.empty()) continue;
    const double parts_s = chain.input_host_s[unit] + chain.weight_host_s[unit];
    const double backward_host_s =
        either ? std::min(parts_s, chain.backward_host_s[unit]) : parts_s;
    costs.host_s.push_back(chain.forward_host_s[unit] + backward_host_s);
  }
  return costs;
}

namespace {

ChainCosts whole_costs(const Chain& chain) {
  ChainCosts costs = chain.costs;
  for (size_t unit = 0; unit < chain.forward_host_s.size(); ++unit)
    costs.host_s.push_back(chain.forward_host_s[unit] + chain.backward_host_s[unit]);
  return costs;
}

}  // namespace

ChainCosts schedule_costs(const Chain& chain, const std::string& schedule) {
  const bool split = find_schedule(schedule, "test").split_backward;
  return split ? split_costs(chain, schedule == "dualpipev") : whole_costs(chain);
}

std::vector<Shape> shapes(int units, int microbatches) {
  std::vector<Shape> result;
  for (const Schedule& schedule : schedules()) {
    for (int ranks = 1; ranks <= 3; ++ranks) {
      for (int each = 1; ranks * each <= units; ++each) {
        if (schedule.stages_per_rank != 0 && schedule.stages_per_rank != each) continue;
        result.push_back({std::string(schedule.name), ranks, each, microbatches,
                          std::vector<double>(static_cast<size_t>(ranks), 1.0)});
      }
    }
  }
  return result;
}

std::vector<double> random_speeds(std::mt19937_64& random, int ranks) {
  std::vector<double> speeds(static_cast<size_t>(ranks));
  for (double& speed : speeds) speed = 1 - 0.15 * static_cast<double>(random() % 6);
  return speeds;
}

RankSpeeds equal_ranks(int ranks) {
  return RankSpeeds(std::vector<double>(static_cast<size_t>(ranks), 1.0));
}

PlacedSpace placed_space(const Chain& chain, const std::string& schedule, const Program& compute,
                         const std::vector<double>& speeds, std::vector<int64_t> reserved_bytes) {
  const Placement placed = placement(compute);
  return {schedule_costs(chain, schedule), bytes_of(chain), placed,
          speeds.empty() ? equal_ranks(placed.ranks) : RankSpeeds(speeds),
          std::move(reserved_bytes)};
}

std::unique_ptr<const SplitSpace> split_space(const Chain& chain, const std::string& schedule,
                                              const Program& compute,
                                              const std::vector<double>& speeds,
                                              std::vector<int64_t> reserved_bytes) {
  auto devices = std::make_unique<PlacedSpace>(
      placed_space(chain, schedule, compute, speeds, std::move(reserved_bytes)));
  if (chain.forward_host_s.empty()) return devices;
  const Placement placed = placement(compute);
  WorkSums hosts(schedule_costs(chain, schedule), placed.microbatches,
                 WorkSums::prefixes(chain.costs.units()));
  return std::make_unique<LaunchSpace>(std::move(devices), std::move(hosts), placed);
}

namespace {

/// Does it run backwards in two parts?
bool splits(const Program& compute) {
  bool found = false;
  for (const std::vector<Action>& actions : compute.ranks) {
    for (const Action& action : actions) {
      for_each_part(action,
                    [&](const Action& part) { found |= part.kind == Kind::backward_input; });
    }
  }
  return found;
}

void slow_down(Costs& costs, const std::vector<int>& rank_of_stage,
               const std::vector<double>& speeds) {
  for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const double speed = speeds[rank_of_stage[stage]];
    for (double StageCosts::*time_s :
         {&StageCosts::forward_s, &StageCosts::backward_s, &StageCosts::backward_input_s,
          &StageCosts::backward_weight_s, &StageCosts::first_forward_s,
          &StageCosts::first_backward_s, &StageCosts::optimizer_s}) {
      costs.stages[stage].*time_s /= speed;
    }
  }
}

}  // namespace

namespace {

std::vector<Flow> flows_of(const Chain& chain, const std::vector<int>& begins) {
  std::vector<Flow> flows;
  for (int stage = 1; stage < static_cast<int>(begins.size()); ++stage) {
    const int cut = begins[stage] - 1;
    if (chain.forward_linked[cut])
      flows.push_back({stage - 1, stage, static_cast<bool>(chain.backward_linked[cut])});
  }
  return flows;
}

LoweringOptions with_optimizer() {
  LoweringOptions options;
  options.optimizer = true;
  return options;
}

}  // namespace

Simulation simulate_program(const Chain& chain, const std::vector<int>& begins,
                            const Program& compute, const std::vector<double>& speeds, int cores) {
  Costs costs = stage_costs(chain, begins, splits(compute));
  if (!speeds.empty()) slow_down(costs, compute.rank_of_stage, speeds);
  for (int rank = 0; cores > 0 && rank < compute.rank_count(); ++rank)
    costs.cores.push_back({rank % cores});
  return simulate(lower(compute, flows_of(chain, begins), with_optimizer()), costs, chain.link,
                  {false, false});
}

Simulation simulate_adaptive(const Chain& chain, const std::vector<int>& begins,
                             const Placement& placement, const std::vector<double>& speeds) {
  AdaptiveProblem problem{.rank_of_stage = placement.rank_of_stage,
                          .ranks = placement.ranks,
                          .microbatches = placement.microbatches,
                          .flows = flows_of(chain, begins),
                          .costs = stage_costs(chain, begins, true),
                          .network = chain.link,
                          .memory = {}};
  if (!speeds.empty()) slow_down(problem.costs, placement.rank_of_stage, speeds);
  return simulate(lower(adaptive(problem), problem.flows, with_optimizer()), problem.costs,
                  chain.link, {false, false});
}

Simulation simulate_split(const Chain& chain, const std::vector<int>& begins,
                          const std::string& schedule, int microbatches) {
  const int ranks = static_cast<int>(begins.size());
  return simulate_program(chain, begins, compute_program(schedule, ranks, microbatches));
}

ChainBound bound_of(const Chain& chain, const std::string& schedule, int ranks, int microbatches) {
  return ChainBound(chain.costs, ranks, microbatches,
                    in_flight(compute_program(schedule, ranks, microbatches)));
}

}  // namespace penstock::test
