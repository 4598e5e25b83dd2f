// The least bound for which there is a plan is found by halving, and in the end by asking for
// anything faster than the best plan.
#include "bench/planner/piper/piper.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/planner/infinite.hpp"
#include "bench/planner/piper/search.hpp"

namespace penstock::bench {

namespace {

/// No plan is as fast: the nodes' device time, each in its best variant, spread over all devices.
double min_s(const PiperGraph& graph) {
  double device_s = 0;
  for (const PiperNode& node : graph.nodes) {
    double node_s = infinite;
    for (const auto& [t, variants] : node.variants)
      for (const PiperVariant& variant : variants) node_s = std::min(node_s, t * variant.time_s);
    device_s += node_s;
  }
  return 0.999 * device_s / graph.devices;
}

}  // namespace

PiperPlan solve_piper(const PiperGraph& graph, size_t downset_limit) {
  Downsets downsets(graph.dag, downset_limit);
  PiperPlan plan{.downsets = downsets.count(), .exact = downsets.complete()};
  PiperSearch search(graph, downsets);
  // From below: the larger the bound, the more stages there are to look at.
  double failed_s = min_s(graph), found_s = infinite;
  for (int i = 0; i < 40 && failed_s > 0 && found_s == infinite; ++i) {
    found_s = search.find(1.25 * failed_s);
    if (found_s == infinite) failed_s *= 1.25;
  }
  if (found_s == infinite) found_s = search.find(std::numeric_limits<double>::max());
  while (found_s < infinite) {
    plan.stages = search.stages();
    if (found_s == 0) break;  // nothing is faster
    double faster_s = infinite;
    while (faster_s == infinite) {
      const bool near = found_s - failed_s <= 1e-6 * found_s;
      const double bound_s = near ? std::nextafter(found_s, 0.0) : (failed_s + found_s) / 2;
      faster_s = search.find(bound_s);
      if (near) break;
      if (faster_s == infinite) failed_s = bound_s;
    }
    found_s = faster_s;
  }
  plan.sample_s = plan.stages.empty() ? infinite : piper_sample_s(graph, plan.stages);
  return plan;
}

double piper_sample_s(const PiperGraph& graph, const std::vector<PiperStage>& stages) {
  const PiperStages known(graph);
  int samples = 0;
  for (const PiperStage& stage : stages) samples += stage.data_parallel;
  double longest_s = 0;
  for (const PiperStage& stage : stages) {
    const auto variants = known.variants(stage.nodes, stage.tensor_parallel, stage.data_parallel,
                                         samples_in_flight(samples, stage.data_parallel));
    double time_s = 0, bytes = 0;
    for (size_t i = 0; i < variants.size(); ++i) {
      time_s += variants[i][stage.variants[i]].time_s;
      bytes += variants[i][stage.variants[i]].bytes;
    }
    if (bytes > graph.device_bytes) return infinite;
    longest_s = std::max(longest_s, time_s);
    samples -= stage.data_parallel;
  }
  return longest_s;
}

}  // namespace penstock::bench
