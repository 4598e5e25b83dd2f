// Evaluation mode, in which a model is validated and used: no dropout, running statistics.
//
// A file has the model in training mode. python/penstock/exporter/evaluation.py finds the arguments
// of operators that have another value in evaluation mode, compares what they give with
// `model.eval()`, and writes them into the file; here they are put in place. So what is known of
// modes is known in one place, the one that has the module to compare with.
#pragma once

#include "graph/graph.hpp"

namespace penstock {

/// The same operators, values and updates with the arguments of evaluation mode: what was derived
/// from the graph (analysis, slices) holds for the result too. Whoever runs it leaves out the
/// updates of buffers. A file that says nothing of evaluation mode has one mode if it draws no
/// random numbers and updates no buffer.
///
/// Throws InputError with reason and cure where what the file has is not `model.eval()`, and where
/// the file does not say what it is.
Graph in_evaluation(Graph graph);

}  // namespace penstock
