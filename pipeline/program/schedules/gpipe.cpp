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
#include "pipeline/program/schedule.hpp"
#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

namespace {

void write_gpipe(const ScheduleShape& shape, int rank, RankWriter& write) {
  // forward: F F F …
  for (int m = 0; m < shape.microbatches; ++m) write.forward(rank);
  // backward: B B B …
  for (int m = 0; m < shape.microbatches; ++m) write.backward(rank);
}

}  // namespace

constinit const Schedule gpipe = {
    .name = "gpipe",
    .description = "all forwards, then all backwards; holds every microbatch",
    .stages_per_rank = 1,
    .alternates = true,
    .write = write_gpipe,
    .held = [](const ScheduleShape& shape, int) { return shape.microbatches; },
    .idle_s = [](const ScheduleShape& shape, const StageTimes& times) -> std::optional<double> {
      return (shape.ranks - 1) * times.whole_s();
    },
    .tools = {.torch = "GPipe"}};

}  // namespace penstock
