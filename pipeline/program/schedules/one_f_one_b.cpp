// 1F1B (PipeDream-flush, Narayanan et al., 2021): as soon as a rank can run a backward it
// alternates, so that it holds few microbatches.
//
//   P = 4, M = 6, B twice as long as F
//
//   time ->
//   rank 0  F0 F1 F2 F3 .  .  .  .  .  .  B0 B0 F4 B1 B1 F5 B2 B2 .  B3 B3 .  B4 B4 .  B5 B5
//   rank 1  .  F0 F1 F2 .  .  .  .  B0 B0 F3 B1 B1 F4 B2 B2 F5 B3 B3 .  B4 B4 .  B5 B5 .  .
//   rank 2  .  .  F0 F1 .  .  B0 B0 F2 B1 B1 F3 B2 B2 F4 B3 B3 F5 B4 B4 .  B5 B5 .  .  .  .
//   rank 3  .  .  .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 F4 B4 B4 F5 B5 B5 .  .  .  .  .  .
//           warm-up     | steady: B F B F …                          | cool-down: B B …
//
// Rank r holds min(M, P-r) microbatches. Idle as GPipe: (P-1)(F+B). With M < P no rank but the last
// ones reaches its steady phase.
#include <algorithm>

#include "pipeline/program/schedules/shape.hpp"

namespace penstock {

Program one_f_one_b(const ScheduleShape& shape) {
  require_one_stage_per_rank("1f1b", shape);
  Program program = loop_program(shape);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& actions = program.ranks[static_cast<size_t>(rank)];
    const int warm_up = std::min(shape.microbatches, shape.ranks - rank);
    // warm-up: F F F …
    for (int m = 0; m < warm_up; ++m) actions.push_back({rank, Kind::forward, m});
    // steady: B F B F …
    for (int m = warm_up; m < shape.microbatches; ++m) {
      actions.push_back({rank, Kind::backward, m - warm_up});
      actions.push_back({rank, Kind::forward, m});
    }
    // cool-down: B B B …
    for (int m = shape.microbatches - warm_up; m < shape.microbatches; ++m) {
      actions.push_back({rank, Kind::backward, m});
    }
  }
  return program;
}

}  // namespace penstock
