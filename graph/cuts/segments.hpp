// Segments of a stage that are recomputed (activation checkpointing): their forward keeps only its
// inputs, and their backward runs it again first.
#pragma once

#include <vector>

#include "graph/cuts/slice.hpp"

namespace penstock {

/// One part: the stage's whole range of operators.
std::vector<Segment> whole_stage(const Slicing& slicing, int stage);

/// One part for each of the first `count` units that the stage has operators of; fewer where it has
/// fewer. `unit_begins`: first operators of the model's units, ascending from 0
/// (graph/cuts/cuts.hpp).
std::vector<Segment> first_units(const Slicing& slicing, int stage,
                                 const std::vector<OperatorId>& unit_begins, int count);

/// The number of units that each stage has operators of.
std::vector<int> units_of_stages(const Slicing& slicing,
                                 const std::vector<OperatorId>& unit_begins);

}  // namespace penstock
