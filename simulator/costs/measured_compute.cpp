#include "simulator/costs/measured_compute.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace penstock {

namespace {

/// The ranks' numbers begin at 0 in each replica.
int slowest_replica(int ranks, int64_t replicas, const Timeline& timeline) {
  int slowest = 0;
  double longest_s = -1;
  for (int replica = 0; replica < replicas; ++replica) {
    double seconds = 0;
    for (int rank = 0; rank < ranks; ++rank) seconds += compute_s(timeline, replica * ranks + rank);
    if (seconds > longest_s) {
      longest_s = seconds;
      slowest = replica;
    }
  }
  return slowest;
}

}  // namespace

Costs with_measured_compute(Costs costs, const Program& program, int64_t replicas,
                            const Timeline& timeline, const std::string& place) {
  const int ranks = program.rank_count();
  const int first = ranks * slowest_replica(ranks, replicas, timeline);
  std::map<std::pair<int, Action>, double> seconds;
  for (const TimelineEvent& event : timeline)
    seconds[{event.rank - first, event.action}] = event.end_s - event.start_s;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Action& action : program.ranks[static_cast<size_t>(rank)]) {
      if (!is_compute(action.kind)) continue;
      const auto found = seconds.find({rank, action});
      if (found == seconds.end()) {
        throw InputError(place,
                         fmt::format("it has no {} on rank {}", to_string(action), rank + first),
                         "Give the trace of this plan: penstock execute PLAN.yaml --trace FILE.");
      }
      costs.measured_s[action] = found->second;
    }
  }
  costs.cores.clear();
  for (StageCosts& stage : costs.stages)
    for (SumCosts& sum : stage.sums) sum.compute_s = 0;
  return costs;
}

}  // namespace penstock
