// What a run tells of one of its steps.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "pipeline/plan/plan.hpp"

namespace penstock::cli {

struct StepRecord {
  int64_t step = 1;            // the first is 1
  std::optional<double> loss;  // not of forwards only
  std::vector<double> microbatch_losses;
  std::optional<double> gradient_norm;  // where the job clips
  std::optional<double> learning_rate;  // the job's own; groups may have others
  double step_s = 0;                    // on rank 0
  double per_s = 0;                     // tokens or samples
  const char* unit = "samples";         // or "tokens"
  // Where the ranks' figures were asked for (ExecuteTask::metrics):
  std::optional<double> bubble;            // share of the ranks' time that is not compute
  std::vector<int64_t> peak_memory_bytes;  // of each rank, since the run began
};

/// From the worker's `step` event. Throws nlohmann::json::exception.
StepRecord step_record(const nlohmann::json& event, const Plan& plan);

/// A line of --metrics, without the losses of microbatches.
nlohmann::ordered_json metrics_of(const StepRecord& record);

}  // namespace penstock::cli
