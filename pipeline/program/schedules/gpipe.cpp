// GPipe (Huang et al., 2019): all forwards, then all backwards.
//
//   P = 4, M = 4, B twice as long as F
//
//   time ->
//   rank 0  F0 F1 F2 F3 .  .  .  .  .  .  .  .  .  B0 B0 B1 B1 B2 B2 B3 B3
//   rank 1  .  F0 F1 F2 F3 .  .  .  .  .  .  B0 B0 B1 B1 B2 B2 B3 B3 .  .
//   rank 2  .  .  F0 F1 F2 F3 .  .  .  B0 B0 B1 B1 B2 B2 B3 B3 .  .  .  .
//   rank 3  .  .  .  F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3 .  .  .  .  .  .
//
// Every rank holds the activations of all M microbatches. Idle: (P-1)(F+B) per rank.
#include "pipeline/program/schedules/shape.hpp"

namespace penstock {

Program gpipe(const ScheduleShape& shape) {
  require_one_stage_per_rank("gpipe", shape);
  Program program = loop_program(shape);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& actions = program.ranks[static_cast<size_t>(rank)];
    // forward: F F F …
    for (int m = 0; m < shape.microbatches; ++m) actions.push_back({rank, Kind::forward, m});
    // backward: B B B …
    for (int m = 0; m < shape.microbatches; ++m) actions.push_back({rank, Kind::backward, m});
  }
  return program;
}

}  // namespace penstock
