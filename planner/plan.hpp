// The planner: from a profile to the best plan, with a bound that says how good it is.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/cuts/cuts.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "planner/layouts/request.hpp"
#include "planner/time_parts.hpp"
#include "simulator/costs/memory_limit.hpp"
#include "simulator/engine/simulate.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

/// One layout that was looked at.
struct Searched {
  bool chosen = false;  // the plan is of this one
  std::string schedule;
  bool branches = false;  // its splits are along the model's branches
  int ranks = 1, stages_per_rank = 1, tensor_parallel = 1;
  OptimizerState optimizer_state = OptimizerState::replicated;
  int64_t data_parallel = 1, microbatches = 1, microbatch = 1;
  int64_t splits = 0, simulated = 0;  // in the space; actually simulated
  double best_s = 0;                  // of those simulated that fit in the memory; 0: none
  double expected_s = 0;              // of that one, where times vary (judge.hpp); 0: not judged
  double lower_bound_s = 0;           // no split of this one is faster
  /// No split of this one has a fullest rank with less (MemoryLimit::fullest).
  int64_t min_memory_bytes = 0;
  int64_t max_memory_bytes = INT64_MAX;  // that it may use
};

/// Why a layout lost.
struct Alternative {
  Searched layout;
  int64_t peak_memory_bytes = 0;  // of the fullest rank
  std::optional<TimeParts> time;  // absent where that takes too long
};

class RankModel;

struct Planned {
  Plan plan;                               // with its prediction
  std::shared_ptr<const RankModel> model;  // as the plan's ranks run it
  /// All that were searched, for a plan of the same model to take what it can of them.
  std::vector<std::shared_ptr<const RankModel>> models;
  Simulation simulation;  // of the winner, with timeline and memory
  Slicing slicing;
  Costs costs;
  double lower_bound_s = 0;  // no plan of the space asked for is faster
  double split_bound_s = 0;  // no run of this split and layout is faster
  /// Where the ranks' time goes, for a step more than 2 % above the bound that is not too long to
  /// explain.
  std::optional<TimeParts> time;
  double open_bound_s = 0;  // where not complete: none of those left is faster
  bool complete = true;     // every plan of the space was simulated or is certainly no better
  bool all_seen = true;     // the same to near_enough, but other recompute may make some faster
  bool stopped = false;     // it was asked to, before that or its effort was reached
  MemoryLimit memory;       // of its ranks
  std::optional<Cluster> cluster;  // with the plan's devices; absent: none was given
  bool manual = false;             // the split was given, not searched
  bool branches = false;           // it is along the model's branches
  bool refined = false;            // its cuts are narrower than those that were searched
  int units = 0;                   // that the model was divided into
  int devices = 0;                 // that the plan might have used
  int64_t layouts = 0;             // that the request allows
  std::vector<Searched> searched;  // those that the search came to: the plan's, others best first
  int64_t judged = 0;              // by the step to be expected of them
  /// The plan that is expected to be fastest, where a simpler one was preferred to it; by which
  /// share of the plan's step it is faster, and which share cannot be told.
  std::optional<Searched> fastest;
  double gain = 0, noise = 0;
  /// The fastest on mean times, where another is expected to be faster.
  std::optional<Searched> fastest_on_means;
  /// On fewer ranks: the fastest of these, where it is a little slower.
  std::optional<Searched> fewer_ranks;
  std::vector<Alternative> alternatives;  // the best other schedules or shapes, where asked for
  std::vector<std::string> warnings;
  /// The step that the plan was chosen by.
  double expected_or_step_s() const {
    return plan.prediction->expected_s > 0 ? plan.prediction->expected_s : plan.prediction->step_s;
  }
  /// No plan of the space takes less: by the bound, or by what the search left.
  double proven_s() const {
    const double step_s = plan.prediction->step_s;
    return complete ? step_s : std::min(step_s, std::max(lower_bound_s, open_bound_s));
  }
  double gap() const { return plan.prediction->step_s / lower_bound_s - 1; }
};

/// A search that was asked to stop (PlanRequest::stop) before it had found a plan.
class SearchStopped : public std::runtime_error {
 public:
  SearchStopped() : std::runtime_error("stopped before a plan was found") {}
};

/// Called now and then during a long search; `share_done` in [0, 1] never falls.
using Progress = std::function<void(const std::string& what, double share_done)>;

/// Searches tensor groups of every size and either way to hold the optimizer's state that the
/// request allows (search_case.hpp), every layout (layout.hpp) and every contiguous split of the
/// chain of units: layouts and splits are taken best lower bound first and simulated until the
/// bound reaches the best found, or, where that would take too long, until a fixed effort is spent
/// (`complete` says which). Memory is a hard limit; ranks that would not fit recompute. Equal steps
/// (to the nanosecond) go by key: less memory on the fullest rank, then the order of layouts,
/// earlier cuts. The step predicted is what simulating the plan gives, to the last bit. Throws
/// InputError where nothing fits (by how much, and what would make it fit), for a coupled batch
/// without leave, for shapes that nothing runs.
///
/// Where the profile knows what times vary by, the best of each layout compete by the step that is
/// to be expected of them, unless memory is the objective: in ascending order of their step on mean
/// times, until that of the next is no less than what is expected of the best so far. Nothing
/// behind it can be expected to be faster: a step is a convex function of its times, sums and
/// maxima, so that its mean is no less than the step on their means (Jensen's inequality). Of the
/// splits of one layout only the best on mean times is judged, and of at most 24 layouts.
///
/// `before`: a plan of the same model, whose work on it is not done again; or null.
Planned make_plan(const Profile& profile, const Graph& model, const Cluster* cluster,
                  const PlanRequest& request, const Progress& progress = {},
                  const Planned* before = nullptr);

}  // namespace penstock
