// The order in which interleaved schedules visit a rank's stages: rounds of K microbatches, each
// round through all v stages of the rank.
//
//   v = 2, K = 2     forwards   a a b b a a b b …
//                    backwards  b b a a b b a a …
//
// M microbatches make max(1, M / P) rounds of equal size, after torch.distributed.pipelining;
// Narayanan et al. (2021) have K = P.
#pragma once

#include <optional>

#include "pipeline/program/schedule.hpp"

namespace penstock {

/// Where the rounds do not divide the microbatches; the cure names the nearest counts.
std::optional<Schedule::Refusal> refuse_unequal_rounds(const ScheduleShape& shape);

/// With whole backwards, looped stages idle through one ramp of stages; with fewer microbatches
/// than ranks also for each turn to the next stage.
std::optional<double> looped_idle_s(const ScheduleShape& shape, const StageTimes& times);

class Interleaving {
 public:
  /// The shape's rounds divide its microbatches.
  explicit Interleaving(const ScheduleShape& shape);

  /// Stage of the i-th forward and of the i-th backward of a rank, from 0.
  int forward_stage(int rank, int i) const { return local(i) * shape_.ranks + rank; }
  int backward_stage(int rank, int i) const {
    return (shape_.stages_per_rank - 1 - local(i)) * shape_.ranks + rank;
  }
  /// Forwards before a rank's first backward, where each rank further from the end has `per_hop`
  /// more.
  int warm_up(int rank, int per_hop) const;
  /// Forwards of a rank in all.
  int total() const { return shape_.microbatches * shape_.stages_per_rank; }

 private:
  int local(int i) const { return (i / per_round_) % shape_.stages_per_rank; }

  ScheduleShape shape_;
  int per_round_;
};

}  // namespace penstock
