// Means over the targets that count: cross-entropy and negative log-likelihood, which leave out the
// targets that are `ignore_index` and may weigh the others by their classes.
//
// They divide by a number that the data decides, so that the mean over a batch is not the mean of
// its microbatches' means.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "graph/analysis/analysis.hpp"

namespace penstock {

struct MeanOfTargets {
  OperatorId op = -1;
  ValueId target = -1;
  std::optional<ValueId> class_weights;
  int64_t ignored = -100;
};

/// The operator as such a mean; nothing for any other, nor where its targets are probabilities or
/// do not depend on the data.
std::optional<MeanOfTargets> mean_of_targets(const Graph& graph, const Analysis& analysis,
                                             OperatorId id);

/// Such a mean that is the model's first output itself, whose targets and class weights are
/// computed from inputs and constants alone: as a loss it can be had from microbatches exactly, as
/// the sum of their sums over the sum of their counts.
struct MeanLoss : MeanOfTargets {
  std::vector<OperatorId> operators;  // that compute targets and class weights, ascending
};
std::optional<MeanLoss> mean_loss(const Graph& graph, const Analysis& analysis);
/// The values that its targets and class weights are, or are computed from.
std::set<ValueId> values_read(const Graph& graph, const MeanLoss& mean);

/// The graph whose first output is the sum in place of the mean.
Graph with_sum(Graph graph, const MeanLoss& loss);

}  // namespace penstock
