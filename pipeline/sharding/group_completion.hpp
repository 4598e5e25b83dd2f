// How tensor groups run a model, as plans and profiles say it.
#pragma once

#include <optional>

#include "graph/sharding/complete.hpp"

namespace penstock {

/// The fewest samples that a microbatch can have.
int64_t smallest_microbatch(const Graph& model);

/// The completion for the smallest microbatch that the model takes, where it is one for another
/// size, too, and else that for this size: what groups run hardly depends on the size of
/// microbatches, and not on their number. Many samples would be better off split among the parts,
/// as replicas split them.
class GroupCompletions {
 public:
  /// Model and pins outlive it.
  GroupCompletions(const Graph& model, const sharding::Pins& pins, int parts);
  /// For microbatches of that size. Throws as sharding::complete does.
  sharding::Completion at(int64_t microbatch) const;

 private:
  const Graph& model_;
  const sharding::Pins& pins_;
  const int parts_;
  const std::optional<sharding::Completion> smallest_;  // absent: the pins need more samples
};

/// For one size alone.
sharding::Completion group_completion(const Graph& model, const sharding::Pins& pins,
                                      int64_t microbatch, int parts);

}  // namespace penstock
