// How tensor groups run a model, as plans and profiles say it.
#pragma once

#include <optional>

#include "graph/sharding/complete.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// The fewest samples that a microbatch can have.
int64_t smallest_microbatch(const Graph& model);

/// The logits of a cross entropy are computed with in parts.
sharding::FirstOutput first_output(const LossSpec& loss);

/// The completions of one model for microbatches of all sizes.
class GroupCompletions {
 public:
  /// The model outlives it.
  GroupCompletions(const Graph& model, const LossSpec& loss, sharding::Pins pins, int parts);

  /// The completion for the smallest microbatch that the model takes, where it is one for this
  /// size, too, and else that for this size: what groups run hardly depends on the size of
  /// microbatches, and not on their number. Many samples would be better off split among the parts,
  /// as replicas split them. Throws as sharding::complete does.
  sharding::Completion at(int64_t microbatch) const;

 private:
  const Graph& model_;
  const sharding::FirstOutput first_;
  const sharding::Pins pins_;
  const int parts_;
  const std::optional<sharding::Completion> smallest_;  // nothing where pins need more samples
};

/// One of them.
sharding::Completion group_completion(const Graph& model, const LossSpec& loss,
                                      const sharding::Pins& pins, int64_t microbatch, int parts);

}  // namespace penstock
