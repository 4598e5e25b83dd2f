// Times of the model captured once and replayed: CUDA graphs.
#pragma once

#include <optional>
#include <string>

#include "backend/profiler/subject.hpp"

namespace penstock::profiler {

struct Replays {
  std::optional<ActionTimes> times;  // of the whole model, its loss included
  std::string why_not;               // why there are none
};

/// The time that these measurements take, in microbatches.
constexpr int kReplayPasses = 10;

/// Captures F and B and then F, I and W of one microbatch, and replays them. Times of the device
/// are between marks. Leaves gradients behind, and memory that the device may give back.
Replays measure_replays(Subject& subject, int64_t microbatch);

}  // namespace penstock::profiler
