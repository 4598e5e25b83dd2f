// The text of `penstock show`.
#pragma once

#include <string>

#include "graph/cuts/slice.hpp"
#include "graph/graph.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/engine/costs.hpp"

namespace penstock::cli {

/// Sizes, inputs and outputs, pipe_split() calls, and the module tree; with the measured times of
/// `costs`, which are of this model, unless it is null.
std::string model_text(const Graph& model, const MicrobatchCosts* costs = nullptr);

/// Each stage with its modules, parameters and FLOPs, with times and memory unless `costs` is null;
/// what crosses every cut in both directions; parameters of several stages; the prediction.
std::string plan_text(const std::string& path, const Plan& plan, const Graph& model,
                      const Slicing& slicing, const Costs* costs = nullptr);

}  // namespace penstock::cli
