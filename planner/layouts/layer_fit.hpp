// The choices of a table's layers for one split: what lets its ranks fit in the least time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/placement.hpp"

namespace penstock {

/// A layer's choices, for one microbatch.
LayerChoices layer_choices(const OperatorCost& layer);

/// A rank is to free so many bytes, by choices whose backward takes no more than that meanwhile.
struct ToFree {
  int64_t bytes = 0;
  int64_t working_bytes = INT64_MAX;
};

class LayerFit {
 public:
  /// All of it outlives this.
  LayerFit(const MicrobatchCosts& measured, const Placement& placement, const Slicing& slicing);

  struct Freed {
    std::vector<int64_t> bytes;  // by rank
    std::vector<int> choices;    // of each layer; -1: it keeps everything
  };
  /// The choices by which each rank frees that, or what it can, in the least time; where seconds of
  /// stages' backwards have prices, they cost least.
  Freed free(const std::vector<ToFree>& wanted, KnownChoices& known,
             const std::vector<double>& prices = {}) const;
  /// Notes each layer's choice in the plan.
  void note(const std::vector<int>& choices, Plan& plan) const;
  /// The most that a rank can free.
  int64_t most(int rank, int64_t working_bytes = INT64_MAX) const;
  /// The largest that a backward of its choices takes meanwhile which is less than that.
  std::optional<int64_t> less_working(int rank, int64_t working_bytes) const;

 private:
  struct Ranked {
    std::vector<OperatorId> layers;  // of the rank, stage by stage
    std::vector<int> stages;         // of each
    std::vector<int> held;           // microbatches that are held of it
  };
  const OperatorCost& costs(OperatorId layer) const {
    return measured_.operators[static_cast<size_t>(layer)];
  }
  /// A layer's choices, with the bytes that they free on the rank: none by those that take more
  /// meanwhile.
  LayerChoices allowed(const Ranked& rank, size_t i, int64_t working_bytes) const;

  const MicrobatchCosts& measured_;
  std::vector<Ranked> ranks_;
};

}  // namespace penstock
