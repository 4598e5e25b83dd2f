// Splits to begin a search with.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/model/rank_speeds.hpp"

namespace penstock {

/// First units of stages on these ranks such that ranks have about the same load; at least one unit
/// for each stage, so there are no more stages than units. Stages of one rank make up for one
/// another: a stage ends where its rank comes nearest to what it should have by then. A rank's load
/// is divided by its speed.
std::vector<int> even_split(const std::vector<double>& load, const std::vector<int>& rank_of_stage,
                            const RankSpeeds& speeds);

/// First units of stages of which the largest is as small as can be; at least one unit for each
/// stage, so there are no more stages than units. `bytes(stage, begin, end)`: never less for more
/// units.
std::vector<int> even_memory_split(
    int units, int stages, const std::function<int64_t(int stage, int begin, int end)>& bytes);

}  // namespace penstock
