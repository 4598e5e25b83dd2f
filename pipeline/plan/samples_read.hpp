// The samples of a step that a rank reads: inputs of its stages, and targets of its loss.
#pragma once

#include <set>
#include <string>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/program/program.hpp"

namespace penstock {

/// The stage that produces an output of the graph; that of the first one computes the loss.
int stage_of_output(const Slicing& slicing, int output);

/// The names of the inputs, and of the target, that a rank of the pipeline reads.
std::set<std::string> samples_read(const Plan& plan, const Graph& graph, const Analysis& analysis,
                                   const Slicing& slicing, const Program& program, int rank);

}  // namespace penstock
