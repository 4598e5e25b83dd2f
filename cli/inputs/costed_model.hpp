// The input of a plan: a profile with its model, or a table of layers, which is both.
#pragma once

#include <filesystem>

#include "graph/graph.hpp"
#include "pipeline/plan/cuda_graphs.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::cli {

struct CostedModel {
  Profile profile;
  Graph model;
};

/// With steps replayed or not (simulator/costs/replays.hpp); `forward_only`: for_inference, and the
/// costs of that. Throws InputError, as the readers of both do.
CostedModel read_costs(const std::filesystem::path& path, CudaGraphs graphs, bool forward_only,
                       const std::string& survive);

/// The plan's model, what each of its ranks runs of it (pipeline/plan/tensor_parallel.hpp), and the
/// profile that it names, of training.
Graph model_of(const Plan& plan);
Graph rank_model_of(const Plan& plan);
Profile profile_of(const Plan& plan);

/// Throws InputError for a plan of a table of layers: `what` needs a model.
void require_model(const Plan& plan, const std::string& what);

}  // namespace penstock::cli
