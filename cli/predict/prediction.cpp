#include "cli/predict/prediction.hpp"

#include "base/error.hpp"
#include "cli/inputs/plan_inputs.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock::cli {

namespace {

/// Enough for a median and percentiles.
constexpr int64_t sampled_count = 200;

}  // namespace

std::optional<Predicted> predict(const Plan& plan, const Graph& model, const Slicing& slicing,
                                 const Program& lowered, CudaGraphs graphs, std::string& reason) {
  if (!plan.profile) {
    reason = "the plan names no profile";
    return std::nullopt;
  }
  try {
    const PlanInputs inputs = plan_inputs(plan, model, slicing, graphs);
    const Simulation simulation =
        penstock::simulate(lowered, inputs.costs, inputs.network, {false, false});
    Predicted predicted{simulation.makespan_s, {}, simulation.peak_memory_bytes, inputs.probe};
    if (inputs.noise) {
      StepSampler sampler(lowered, inputs.costs, inputs.network, *inputs.noise, plan.data_parallel);
      predicted.samples = sampled_steps(sampler, 0, sampled_count);
    }
    return predicted;
  } catch (const InputError& error) {
    reason = error.what();
    return std::nullopt;
  }
}

}  // namespace penstock::cli
