// Costs of inference, from those that were measured in training.
#pragma once

#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// The profile of a model that runs forwards alone: forwards take as long as in training,
/// backwards and the loss take nothing, and a value is held to its last reader.
Profile forward_costs(Profile training, const Graph& model);

}  // namespace penstock
