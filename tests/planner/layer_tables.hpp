// Tables of layers, and the least that a split of one takes with any of its layers' choices.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "pipeline/layers/layer_table.hpp"
#include "pipeline/plan/plan.hpp"
#include "planner/plan.hpp"

namespace penstock::test {

/// The table of that name in configs/layers.
LayerTable config(const std::string& name);

/// Layers of a few kinds, some without choices; all numbers are whole, so that ties are exact.
/// `rough`: with messages and memory that a backward takes meanwhile, where what a rank holds is no
/// sum over its layers. `layers`: how many, 0: 3 to 5.
LayerTable random_table(std::mt19937_64& random, bool rough, int64_t layers = 0);

/// The least step of a split over all choices of all layers that fit.
std::optional<double> best_of(const Profile& profile, const Graph& model, const Plan& split,
                              int64_t memory_bytes);

/// The plan of a split of the layers, rank by rank in turn.
Plan plan_of(const Profile& profile, const Graph& model, const std::string& schedule, int ranks,
             const std::vector<int>& begins);

/// The best plan that is found for the table.
Planned planned(const LayerTable& table, const PlanRequest& request);
PlanRequest asked(const std::string& schedule, int ranks, int stages_per_rank,
                  int64_t memory_bytes);

}  // namespace penstock::test
