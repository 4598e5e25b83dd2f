// The objective of PipeDream's planner (D. Narayanan et al., "PipeDream: generalized pipeline
// parallelism for DNN training", 2019, section 3.1; its optimizer with activation_compression_ratio
// 1 and one level of machines), and its exact optimum.
//
// A model is cut into stages that are differences of downsets; a stage is replicated over q workers
// and takes
//     (compute + 4 (q - 1) / q x parameter bytes / bandwidth) / q
// for a batch. A stage after the first also takes at least 2 x (bytes that the layers before it
// hand on) / (q x bandwidth), and, if it is not the last, the same for what is handed on behind it;
// the first stage's own output counts only as the input of the second. The value is the longest of
// these times. All workers are used.
#pragma once

#include <vector>

#include "bench/planner/importers/layer_graph.hpp"

namespace penstock::bench {

struct PipeDreamSetting {
  int workers = 1;
  double bytes_per_s = 1e9;
};

struct ReplicatedStage {
  std::vector<int> layers;  // ascending, of the graph as given
  int replicas = 1;
};

struct PipeDreamPlan {
  double batch_s = 0;
  std::vector<ReplicatedStage> stages;
  int downsets = 0;
  bool exact = true;  // false: more downsets than the limit, and the graph was split as a chain
};

/// All layers of `graph` are placed; see without_ends().
PipeDreamPlan solve_pipedream(const LayerGraph& graph, const PipeDreamSetting& setting,
                              size_t downset_limit = 20'000);

}  // namespace penstock::bench
