// Segments of a stage that are recomputed (activation checkpointing): their forward keeps only its
// inputs, and their backward runs it again first.
#pragma once

#include <vector>

#include "graph/cuts/cuts.hpp"
#include "graph/cuts/slice.hpp"

namespace penstock {

/// One part: the stage's whole range of operators.
std::vector<Segment> whole_stage(const Slicing& slicing, int stage);

/// The units that each stage has operators of, as numbers, ascending. `units`: all of the model
/// (graph/cuts/cuts.hpp).
std::vector<std::vector<int>> units_of_stages(const Slicing& slicing,
                                              const std::vector<Unit>& units);

}  // namespace penstock
