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

#include "pipeline/program/schedule.hpp"
#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

namespace {

/// Forwards of a rank before its first backward.
int warm_up_1f1b(const ScheduleShape& shape, int rank) {
  return std::min(shape.microbatches, shape.ranks - rank);
}

void write_1f1b(const ScheduleShape& shape, int rank, RankWriter& write) {
  const int warm_up = warm_up_1f1b(shape, rank);
  // warm-up: F F F …
  for (int m = 0; m < warm_up; ++m) write.forward(rank);
  // steady: B F B F …
  for (int m = warm_up; m < shape.microbatches; ++m) write.backward(rank), write.forward(rank);
  // cool-down: B B B …
  for (int m = 0; m < warm_up; ++m) write.backward(rank);
}

}  // namespace

constinit const Schedule one_f_one_b = {
    .name = "1f1b",
    .description = "one forward, one backward; holds at most as many microbatches as ranks",
    .stages_per_rank = 1,
    .alternates = true,
    .write = write_1f1b,
    .held = warm_up_1f1b,
    .idle_s = [](const ScheduleShape& shape, const StageTimes& times) -> std::optional<double> {
      return (shape.ranks - 1) * times.whole_s();
    },
    .tools = {.torch = "1F1B", .megatron = "1F1B", .deepspeed = "1F1B"}};

}  // namespace penstock
