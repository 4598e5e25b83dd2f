// How the stages of a split lie on the ranks, and what a rank holds at once when it holds most.
#pragma once

#include <vector>

#include "pipeline/program/program.hpp"

namespace penstock {

struct Placement {
  int ranks = 1, microbatches = 1;
  std::vector<int> rank_of_stage;
  std::vector<int> held;  // by stage: its microbatches at a moment when its rank holds most in all
  bool one_stage_per_rank() const { return static_cast<int>(rank_of_stage.size()) == ranks; }
};

/// A rank at a moment of its program.
struct HeldAtOnce {
  int rank = 0;
  // By stage: microbatches from F to I or B, from I to W, and those whose B begins.
  std::vector<int> held, left, turning;
};

/// When ranks hold most: at no other moment does one hold as much or more of all of its stages, and
/// begin the same backward.
std::vector<HeldAtOnce> fullest_moments(const Program& compute);

/// The placement of a schedule's compute actions. A microbatch is held from the start of F to the
/// end of B or I.
Placement placement(const Program& compute);

}  // namespace penstock
