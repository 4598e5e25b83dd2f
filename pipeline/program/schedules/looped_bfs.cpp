// Looped BFS (Lamy-Poirier, "Breadth-First Pipeline Parallelism", 2022): a rank runs every
// microbatch of its first stage, then of its next, and the way back in the opposite order.
//
//   P = 2, v = 2, M = 3, B twice as long as F; small letters are the second stage of a rank
//
//   time ->
//   rank 0  F0 F1 F2 f0 f1 f2 .  .  .  b2 b2 b1 b1 b0 b0 B2 B2 B1 B1 B0 B0
//   rank 1  .  F0 F1 F2 f0 f1 f2 b2 b2 b1 b1 b0 b0 B2 B2 B1 B1 B0 B0 .  .
//
// Every rank holds all v M microbatches. The backwards go down in microbatches, since the last one
// is the first whose activations are all there.
#include "pipeline/program/schedules/interleaving.hpp"
#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

namespace {

void write_looped_bfs(const ScheduleShape& shape, int rank, RankWriter& write) {
  // forward: stage by stage, F F F …
  for (int v = 0; v < shape.stages_per_rank; ++v) {
    for (int m = 0; m < shape.microbatches; ++m) write.forward(v * shape.ranks + rank);
  }
  // backward: last stage first, last microbatch first
  for (int v = shape.stages_per_rank - 1; v >= 0; --v) {
    for (int m = shape.microbatches - 1; m >= 0; --m) {
      write.append({v * shape.ranks + rank, Kind::backward, m});
    }
  }
}

}  // namespace

constinit const Schedule looped_bfs = {
    .name = "looped-bfs",
    .description = "GPipe with several stages per rank, one after the other",
    .write = write_looped_bfs,
    .held = [](const ScheduleShape& shape,
               int) { return shape.microbatches * shape.stages_per_rank; },
    .idle_s = looped_idle_s,
    .tools = {.torch = "LoopedBFS"}};

}  // namespace penstock
