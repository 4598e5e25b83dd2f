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
  int ranks = 2;
  std::vector<std::string> schedules;          // empty: all that apply (gpipe, 1f1b)
  std::optional<int64_t> microbatches;         // absent: all that the profile measured
  std::optional<int64_t> memory_bytes;         // per rank; absent: the device's or the cluster's
  std::vector<std::string> split;              // manual split points; empty: searched
  bool allow_batch_coupling = false;
};

/// One (schedule, microbatches) that was looked at.
struct Searched {
  std::string schedule;
  int64_t microbatches = 1, microbatch = 1;
  int64_t splits = 0, simulated = 0;           // in the space; actually simulated
  double best_s = 0, lower_bound_s = 0;        // best_s is 0 where nothing fits
  int64_t least_memory_bytes = 0;              // smallest peak seen, where nothing fits
};

struct Planned {
  Plan plan;                // with its prediction
  Simulation simulation;    // of the winner
  Slicing slicing;
  Costs costs;
  double lower_bound_s = 0; // no plan of the space asked for is faster
  std::vector<Searched> searched;
  double gap() const;       // step / bound - 1
};

using Progress = std::function<void(const std::string& what, double share_done)>;

/// Exact over contiguous splits of the chain of units: splits are taken best lower bound first and
/// simulated until the bound reaches the best found. Memory is a hard limit. Ties go by key.
/// Throws InputError where nothing fits (by how much, and what would make it fit), for a coupled
/// batch without leave, for more ranks than units.
Planned make_plan(const Profile& profile, const Graph& model, const Cluster* cluster,
                  const PlanRequest& request, const Progress& progress = {});

}  // namespace penstock
