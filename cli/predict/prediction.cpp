#include "cli/predict/prediction.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "pipeline/program/timeline.hpp"
#include "simulator/costs/plan_costs.hpp"
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
    Predicted predicted{.inputs = plan_inputs(plan, model, slicing, graphs)};
    const PlanInputs& inputs = predicted.inputs;
    const Simulation simulation =
        penstock::simulate(lowered, inputs.costs, inputs.network, {.memory = false});
    predicted.step_s = simulation.makespan_s;
    for (int rank = 0; rank < lowered.rank_count(); ++rank) {
      for (int64_t part = 0; part < plan.tensor_parallel; ++part) {
        predicted.compute_s.push_back(compute_s(simulation.timeline, rank));
        predicted.peak_memory_bytes.push_back(
            simulation.peak_memory_bytes[static_cast<size_t>(rank)]);
      }
    }
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

StepAtPace step_at_pace(const Predicted& predicted, const Program& lowered,
                        const std::vector<double>& compute_s) {
  const auto ranks = static_cast<size_t>(lowered.rank_count());
  const size_t parts = predicted.compute_s.size() / ranks;
  std::vector<double> slowest_s(ranks), expected_s(ranks);
  for (size_t rank = 0; rank < compute_s.size(); ++rank) {
    double& slowest = slowest_s[rank / parts % ranks];
    slowest = std::max(slowest, compute_s[rank]);
  }
  for (size_t rank = 0; rank < ranks; ++rank) expected_s[rank] = predicted.compute_s[rank * parts];
  Costs costs = predicted.inputs.costs;
  for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const auto rank = static_cast<size_t>(lowered.rank_of_stage[stage]);
    if (slowest_s[rank] > 0 && expected_s[rank] > 0)
      speed_up(costs.stages[stage], expected_s[rank] / slowest_s[rank]);
  }
  const auto sum = [](const std::vector<double>& seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  };
  return {
      .slowdown = sum(expected_s) > 0 ? sum(slowest_s) / sum(expected_s) : 1,
      .step_s =
          penstock::simulate(lowered, costs, predicted.inputs.network, {false, false}).makespan_s};
}

}  // namespace penstock::cli
