// By how much a rank of certain stages holds too much, where their units free something.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/placement.hpp"

namespace penstock {

/// The units of a stage free so much of a microbatch together; `again` less where a backward
/// begins, unless they recompute at once.
struct FreedByStage {
  LayerChoice of;
  int64_t again = 0;
};

class RankHolding {
 public:
  /// Bytes of a stage: those that are always there, of a microbatch, of one between I and W, and
  /// of one whose backward begins.
  struct Stage {
    size_t number;
    int64_t own, saved, for_weight, turn;
  };
  /// `moments`: the rank's.
  RankHolding(const std::vector<HeldAtOnce>& moments, const std::vector<Stage>& stages,
              int64_t limit);

  /// Bytes beyond the limit when the rank holds most; `freed`: by stage of the rank.
  int64_t excess(const std::vector<FreedByStage>& freed) const;
  /// In such a sum.
  int64_t products() const;

 private:
  struct Moment {
    int64_t excess;                  // where nothing is freed
    std::vector<int> held, turning;  // by stage of the rank
    bool covers(const Moment& other) const;
  };

  std::vector<Moment> moments_;
};

}  // namespace penstock
