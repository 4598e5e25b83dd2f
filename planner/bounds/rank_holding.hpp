// By how much a rank of certain stages holds too much, where their units free something.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/bounds/layer_choices.hpp"

namespace penstock {

/// The units of a stage free so much of a microbatch together; `again` less where a backward
/// begins, unless they recompute at once.
struct FreedByStage {
  LayerChoice of;
  int64_t again = 0;
};

/// As HeldAtOnce, of one rank: by its stages.
struct RankMoment {
  std::vector<int> held, left, turning;
};

class RankHolding {
 public:
  /// Bytes of a stage: those that are always there, of a microbatch, of one between I and W, and
  /// of one whose backward begins.
  struct Stage {
    int64_t own, saved, for_weight, turn;
  };
  /// `moments`: the rank's, which outlive this.
  RankHolding(const std::vector<RankMoment>& moments, const std::vector<Stage>& stages,
              int64_t limit);

  /// Bytes beyond the limit when the rank holds most.
  struct Excess {
    int64_t bytes;
    const RankMoment* when;
  };
  /// `freed`: by stage of the rank.
  Excess excess(const std::vector<FreedByStage>& freed) const;
  /// In such a sum.
  int64_t products() const;

 private:
  struct Moment {
    int64_t excess;  // where nothing is freed
    const RankMoment* of;
    bool covers(const Moment& other) const;
  };

  std::vector<Moment> moments_;
};

}  // namespace penstock
