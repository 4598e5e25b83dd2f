// Noise of the times of a plan's steps, from its profile.
//
// A step draws a factor `common` to all ranks and one of each rank's `own`, and for each unit in
// each F, B, I and W that a stage runs a factor of its jitter (pipeline/profile/variation.hpp).
// Units of a stage are drawn apart, as their jitter was measured, so a stage of many varies
// relatively less than each. Transfers, all-reduces and hosts keep their times.
//
// The parts of a tensor group are ranks that draw for themselves. They meet wherever they send to
// each other, and go on from there when the slowest has come; what they send keeps its time.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "pipeline/profile/variation.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

/// A unit's share of an action of a stage.
struct NoisePart {
  int unit = 0;
  int action = 0;  // of the profile's: 0 forward, 1 backward, 2 and 3 its halves
  double seconds = 0;
  double error = 0;  // relative standard error of its mean
  Factors jitter;
  int phase = 0;  // of the action: parts of a tensor group meet between one and the next
};

struct ActionNoise {
  std::vector<NoisePart> parts;  // by phase
  double sent_s = 0;             // of the action: what the parts of a group send to each other
};

/// By action of a stage: F, B, I, W.
using StageNoise = std::array<ActionNoise, 4>;

struct StepNoise {
  int64_t microbatch = 1;   // the size whose costs these are
  int64_t group_parts = 1;  // ranks of a tensor group
  std::vector<StageNoise> stages;
  Factors common{1}, own{1};
  double size_error = 0;  // relative standard error that all means of the size share
  double link_error = 0;  // and of transfers over the link that the profile measured
};

/// The noise of the rounds of a size that knows it, beside jitter.
RoundParts round_noise(const MicrobatchCosts& costs);

/// Does the profile know, at some microbatch size, what times vary by?
bool knows_noise(const Profile& profile);

/// The noise of a plan's stages that cost so much, at its microbatch size; where that was measured
/// too seldom, from the nearest size that was not. Jitter of a time m, measured of a time
/// M, has deviations of sqrt(M / m) of those measured, as if times were sums of equal independent
/// parts: of other sizes, and of a part of a unit. What a stage recomputes varies as its forward.
/// Absent where the profile knows of none.
/// `cluster`: whose links the plan uses, or null.
std::optional<StepNoise> step_noise(const Profile& profile, const Cluster* cluster,
                                    const Plan& plan, const Slicing& slicing, const Costs& costs);

}  // namespace penstock
