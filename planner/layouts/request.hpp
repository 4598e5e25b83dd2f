// The planner's request, and whether it can be planned.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/graph.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

enum class PlanObjective {
  throughput,  // the shortest step
  memory,      // the least memory on the fullest rank
  cost         // the fewest device seconds per step
};

enum class PlanSharing { automatic, replicate, transmit };

/// About what a search does in a second of one core: a limit of effort, unlike one of time, leaves
/// the plan the same on any machine.
inline constexpr int64_t effort_per_second = 5'000'000;

/// A request; everything that is not named is searched.
struct PlanRequest {
  std::optional<int> ranks;             // in all, at most; absent: the split's, the cluster's, or 2
  std::vector<std::string> schedules;   // empty: every one
  std::optional<int64_t> microbatches;  // of one replica; absent: all sizes that were measured
  std::optional<int> stages_per_rank;
  std::optional<int64_t> data_parallel;
  std::optional<int64_t> memory_bytes;  // per rank; absent: the cluster's or the device's
  int64_t more_memory_bytes = 0;        // on top of either, where there is a limit
  std::vector<std::string> split;       // manual split points: one stage per rank, one replica,
                                        // unless named
  PlanObjective objective = PlanObjective::throughput;
  /// Ranks of a tensor group; absent: 1, or any number that the profile has costs of.
  std::optional<int> tensor_parallel = 1;
  /// How ranks share parameters (pipeline/plan/sharing.hpp), each plan's all alike; automatic: as
  /// its step gets shorter, of those ways that fit.
  PlanSharing sharing = PlanSharing::automatic;
  /// For plans with several replicas; absent: both are searched, and the better plan taken.
  std::optional<OptimizerState> optimizer_state = OptimizerState::replicated;
  bool contiguous = false;  // stages are intervals of the model
  /// Modules that no stage divides, as patterns of paths (graph/cuts/module_cuts.hpp); stages are
  /// then intervals.
  std::vector<std::string> whole_modules;
  /// The share of the fastest plan's step that a simpler plan may take longer.
  double tolerance = 0;
  bool allow_batch_coupling = false;
  size_t alternatives = 0;                 // how many to explain
  int threads = 1;                         // the plan is the same for any number
  int64_t effort = 8 * effort_per_second;  // after which a search stops
  /// Asked on any thread now and then whether to stop with the best plan so far; may be empty.
  std::function<bool()> stop;
};

// Each of these throws InputError, place: the flag or file.

/// The profile is of this model, whole.
void check_model(const Profile& profile, const Graph& model);

/// Where the split points that were asked for divide the model; the first stage begins at 0.
std::vector<OperatorId> manual_begins(const Graph& model, const std::vector<std::string>& split);

/// With what a manual split implies: one stage per rank, or as many as the schedule always runs,
/// and one replica, unless they are named. Throws InputError for a schedule that does not exist.
PlanRequest completed(PlanRequest request);

/// For a table of layers (Graph::layers): no backwards in two parts where it gives them as a whole,
/// and one replica where it gives no gradients to sum. Warns of what it leaves out; throws where
/// that was asked for.
PlanRequest within_table(PlanRequest request, const Profile& profile, const Graph& model,
                         std::vector<std::string>& warnings);

/// A sharded optimizer state is for training with several replicas, from a profile. Of a request
/// that is `completed`.
void check_optimizer_state(const PlanRequest& request, const Profile& profile, const Graph& model);

/// How many ranks a plan may use in all: as asked for, or the split's, or the cluster's, or 2.
int choose_devices(const PlanRequest& request, const Cluster* cluster, int chain_units);

/// Where the samples of a batch influence each other the number of microbatches changes the
/// training: it is chosen only with leave, and with a warning; likewise a warning where nobody
/// knows.
void check_coupling(const Graph& model, const Analysis& analysis, const PlanRequest& request,
                    std::vector<std::string>& warnings);

}  // namespace penstock
