// The weight of each microbatch in the mean loss of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/data/data.hpp"
#include "backend/operators/interpreter.hpp"
#include "backend/stage/recipe/store.hpp"
#include "graph/analysis/mean_of_targets.hpp"

namespace penstock {

/// The number of samples, or of the targets among them that the loss counts, as they weigh.
class LossWeights {
 public:
  /// `mean`: where the model computes its loss as one. All references outlive it.
  LossWeights(const Graph& graph, const std::optional<MeanLoss>& mean, const Data& data,
              const MatchedWeights* weights = nullptr);

  /// Does the weight of samples depend on more than their number? Else no data is read for it.
  bool vary() const { return mean_ || data_.has_ignored_targets(); }
  /// The weight of samples [first, first + count); weights of parts add up to that of the whole.
  double of(int64_t first, int64_t count) const;

 private:
  double of_targets(int64_t first, int64_t count) const;

  const Graph& graph_;
  const std::optional<MeanLoss>& mean_;
  const Data& data_;
  std::vector<PreparedOperator> operators_;  // that compute the targets
  ValueTable stored_;
};

}  // namespace penstock
