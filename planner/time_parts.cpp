#include "planner/time_parts.hpp"

#include <numeric>

namespace penstock {

TimeParts time_parts(const Plan& plan, const Slicing& slicing, const Costs& costs,
                     const Simulation& simulation, const Network& network) {
  TimeParts parts;
  parts.idle = sum(idle_parts(lowered_program(plan, slicing), costs, network));
  for (const StageCosts& stage : costs.stages) {
    parts.recompute_s += static_cast<double>(plan.microbatches) * stage.recompute_s;
  }
  const std::vector<double>& busy_s = simulation.busy_s;
  parts.work_s = std::accumulate(busy_s.begin(), busy_s.end(), 0.0) - parts.recompute_s;
  return parts;
}

}  // namespace penstock
