// Operators through which the samples of a batch influence each other, as far as the graph shows
// them: the exporter, which runs the model on half its batch, finds every other one, but not that a
// count depends on the data where its example data has none to leave out.
#pragma once

#include <string>
#include <vector>

#include "graph/analysis/analysis.hpp"

namespace penstock {

struct Coupling {
  OperatorId op;
  std::string reason;  // `divides by sum_1, which is computed over the whole microbatch`
};

/// The couplings that the model's first output depends on, in the graph's order: batch norms in
/// training, and means over a number that the data decides (over targets that are not ignored, by
/// class weights, by the sum of a mask). A mean_loss is none: its microbatches are weighed.
std::vector<Coupling> couplings(const Graph& graph, const Analysis& analysis);

/// `div_1 (aten::div.Tensor in head) divides by …`
std::string describe(const Graph& graph, const Coupling& coupling);

}  // namespace penstock
