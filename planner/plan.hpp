// The planner: from a profile to the best plan, with a bound that says how good it is.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/cuts.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/profile.hpp"
#include "simulator/cluster.hpp"
#include "simulator/simulate.hpp"

namespace penstock {

struct PlanRequest {
  std::optional<int> ranks;             // absent: the split's stages, the cluster's, or 2
  std::vector<std::string> schedules;   // empty: all that apply (gpipe, 1f1b)
  std::optional<int64_t> microbatches;  // absent: all that the profile measured
  std::optional<int64_t> memory_bytes;  // per rank; absent: the cluster's or the device's
  std::vector<std::string> split;       // manual split points; empty: searched
  bool allow_batch_coupling = false;
};

/// One (schedule, microbatches) that was looked at.
struct Searched {
  std::string schedule;
  int64_t microbatches = 1, microbatch = 1;
  int64_t splits = 0, simulated = 0;  // in the space; actually simulated
  double best_s = 0;                  // of those simulated that fit in the memory; 0: none
  double lower_bound_s = 0;           // no split of this one is faster
  int64_t least_memory_bytes = 0;     // no split of this one has a fullest rank with less
};

struct Planned {
  Plan plan;              // with its prediction
  Simulation simulation;  // of the winner, with timeline and memory
  Slicing slicing;
  Costs costs;
  double lower_bound_s = 0;        // no plan of the space asked for is faster
  double split_bound_s = 0;        // no run of this split, schedule and microbatch count is faster
  int64_t memory_limit_bytes = 0;  // per rank; 0: none
  std::string memory_source;       // where the limit comes from
  bool manual = false;             // the split was given, not searched
  int units = 0;                   // that the model was divided into
  std::vector<Searched> searched;
  std::vector<std::string> warnings;
  double gap() const { return plan.prediction->step_s / lower_bound_s - 1; }
};

/// Called now and then during a long search; `share_done` in [0, 1] never falls.
using Progress = std::function<void(const std::string& what, double share_done)>;

/// Exact over contiguous splits of the chain of units: splits are taken best lower bound first and
/// simulated until the bound reaches the best found. Memory is a hard limit. Equal steps (to the
/// nanosecond) go by key: less memory on the fullest rank, schedule in the table's order, fewer
/// microbatches, earlier cuts. The step predicted is what simulating the plan gives, to the last
/// bit. Throws InputError where nothing fits (by how much, and what would make it fit), for a
/// coupled batch without leave, for more ranks than units.
Planned make_plan(const Profile& profile, const Graph& model, const Cluster* cluster,
                  const PlanRequest& request, const Progress& progress = {});

}  // namespace penstock
