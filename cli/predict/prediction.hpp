// The prediction of a plan, from the profile that the plan names, and what is left of its error
// when the ranks compute as fast as they did.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/inputs/plan_inputs.hpp"
#include "pipeline/plan/cuda_graphs.hpp"
#include "pipeline/plan/plan.hpp"
#include "simulator/noise/step_sampler.hpp"

namespace penstock::cli {

struct Predicted {
  PlanInputs inputs;
  double step_s = 0;                    // on mean times
  std::optional<SampledSteps> samples;  // with drawn times; absent: the profile knows of none
  // By rank of a replica, in tensor groups by part:
  std::vector<double> compute_s;           // F, B, I and W
  std::vector<int64_t> peak_memory_bytes;  // empty: not known
};

/// `model`: what each rank runs. Nothing where the plan names no profile, or one whose file is
/// gone, or which did not measure this plan's microbatch, or which has no replays where they are
/// asked for; `reason` then says which, for people.
std::optional<Predicted> predict(const Plan& plan, const Graph& model, const Slicing& slicing,
                                 const Program& lowered, CudaGraphs graphs, std::string& reason);

/// The step with each rank's compute as long as it was, by what was predicted of it: its error is
/// of all else, as waiting, and not of a machine that is slower than when it was profiled.
struct StepAtPace {
  double slowdown = 1;  // of all compute: measured over predicted
  double step_s = 0;
};

/// `compute_s`: as measured, of all ranks of all replicas; of replicas the slowest counts, which
/// the others wait for.
StepAtPace step_at_pace(const Predicted& predicted, const Program& lowered,
                        const std::vector<double>& compute_s);

}  // namespace penstock::cli
