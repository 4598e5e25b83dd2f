// A sweep: plans for each combination of some values, side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/inputs/sweep_axes.hpp"
#include "planner/plan.hpp"

namespace penstock::cli {

/// The figures by which plans are compared.
struct SweptPlan {
  std::string schedule;
  OptimizerState optimizer_state = OptimizerState::replicated;
  int ranks = 1, stages_per_rank = 1;  // of a replica
  int64_t tensor_parallel = 1;
  int64_t data_parallel = 1, microbatches = 1, microbatch = 1, global_batch = 1;
  double step_s = 0;
  double expected_s = 0;          // where times vary; 0: not known
  double lower_bound_s = 0;       // no plan of the same request is faster
  bool complete = true;           // and the plan is that fast
  int64_t peak_memory_bytes = 0;  // of the fullest rank
  int64_t memory_bytes = 0;       // that it may use; 0: no limit

  double samples_per_s() const { return static_cast<double>(global_batch) / step_s; }
  /// Summed over all devices that it uses, for a step.
  double device_s() const {
    return step_s * ranks * static_cast<double>(data_parallel * tensor_parallel);
  }
  double device_s_per_sample() const { return device_s() / static_cast<double>(global_batch); }
};

struct SweepRow {
  std::vector<SweepValue> values;  // one of each axis
  std::optional<SweptPlan> plan;
  std::string problem;  // why there is none
};

struct Sweep {
  std::vector<SweepAxis> axes;
  std::vector<SweepRow> rows;         // the last axis changes from row to row
  std::vector<std::string> warnings;  // of all plans, each once

  /// The first row with the most samples per second, and that with the fewest device seconds for
  /// each; null where no row has a plan.
  const SweepRow* fastest() const;
  const SweepRow* cheapest() const;
};

/// The combinations of all values, without plans.
Sweep combinations(std::vector<SweepAxis> axes);

/// `ranks=8, memory=16GiB`.
std::string values_text(const Sweep& sweep, const SweepRow& row);

/// The planner's progress with a row, which is one of the sweep's.
using RowProgress =
    std::function<void(const SweepRow& row, const std::string& what, double share_done)>;

/// Plans each row for itself; one that cannot be planned says why.
void plan_rows(Sweep& sweep, const PlanCase& base, const Graph& model, const RowProgress& progress);

}  // namespace penstock::cli
