// The prediction of a plan, from the profile that the plan names.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/plan/cuda_graphs.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/noise/step_sampler.hpp"

namespace penstock::cli {

struct Predicted {
  double step_s = 0;                       // on mean times
  std::optional<SampledSteps> samples;     // with drawn times; absent: the profile knows of none
  std::vector<int64_t> peak_memory_bytes;  // per rank of a replica; empty: not known
  Probe probe;                             // of the profile
};

/// Nothing where the plan names no profile, or one whose file is gone, or which did not measure
/// this plan's microbatch, or which has no replays where they are asked for; `reason` then says
/// which, for people.
std::optional<Predicted> predict(const Plan& plan, const Graph& model, const Slicing& slicing,
                                 const Program& lowered, CudaGraphs graphs, std::string& reason);

}  // namespace penstock::cli
