// ZB-V (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024): two stages per rank,
// laid out as a V, so that the last stage sits beside the first and backwards start at once.
//
//   P = 2, M = 4, F, I and W equally long; small letters are the second stage, 3 - r on rank r
//
//   time ->
//   rank 0  F0 F1 F2 f0 i0 w0 f1 i1 w1 F3 I0 W0 f2 i2 w2 I1 W1 f3 i3 w3 I2 W2 I3 W3 .
//   rank 1  .  F0 f0 F1 f1 i0 w0 F2 I0 W0 f2 i1 w1 F3 I1 W1 f3 i2 w2 I2 i3 I3 W2 w3 W3
//
// Every rank holds 2 P microbatches. With F = I = W and M >= 2 P - 1 each rank is busy without a
// gap: 6 M.
#include <algorithm>

#include "pipeline/program/schedule.hpp"
#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

namespace {

/// `write.backward_input(stage); write.backward_weight(stage)`: B in two parts, nothing between.
void both(RankWriter& write, int stage) {
  write.backward_input(stage);
  write.backward_weight(stage);
}

void write_zbv(const ScheduleShape& shape, int rank, RankWriter& write) {
  const int a = rank, b = 2 * shape.ranks - 1 - rank;
  const int to_turn = shape.ranks - rank;  // ranks from here to the tip of the V
  // Phases are written for a full pipeline; RankWriter drops what lies past the last microbatch.
  const int microbatches = std::max(2 * shape.ranks - 1, shape.microbatches);

  // 1. down the V: aF aF …
  for (int i = 0; i < 2 * to_turn - 1; ++i) write.forward(a);
  // 2. the first ones come up again: bF aF bF aF …
  for (int i = 0; i < rank; ++i) write.forward(b), write.forward(a);
  // 3. backwards start at the top: bF bI bW …
  for (int i = 0; i < to_turn; ++i) write.forward(b), both(write, b);
  // 4. steady: aF aI aW bF bI bW …
  while (write.forwards(b) < write.forwards(a) || write.forwards(a) < microbatches) {
    if (write.forwards(a) < microbatches) write.forward(a);
    both(write, a);
    write.forward(b);
    both(write, b);
  }
  // 5. cool-down, W put off: aI bI …
  for (int i = 0; i < rank; ++i) write.backward_input(a), write.backward_input(b);
  // 6. aI aW …
  for (int i = 0; i < to_turn; ++i) both(write, a);
  // 7. the rest: bW …, then aW …
  for (int i = 0; i < rank; ++i) write.backward_weight(b);
  for (int i = 0; i < rank; ++i) write.backward_weight(a);
}

int held_zbv(const ScheduleShape& shape, int rank) {
  return std::min({2 * shape.ranks, shape.microbatches + 1 + rank, 2 * shape.microbatches});
}

/// Few microbatches leave gaps that each further one fills by two actions.
std::optional<double> idle_zbv_s(const ScheduleShape& shape, const StageTimes& times) {
  if (!times.equal()) return std::nullopt;
  const int hops = shape.ranks - 1;
  return std::max(hops, 4 * hops - 2 * (shape.microbatches - 1)) * times.forward_s;
}

}  // namespace

constinit const Schedule zbv = {
    .name = "zbv",
    .description = "two stages per rank laid out as a V, I and W apart: no bubble for equal times",
    .placement = StagePlacement::v,
    .stages_per_rank = 2,
    .split_backward = true,
    .write = write_zbv,
    .held = held_zbv,
    .idle_s = idle_zbv_s,
    .tools = {.torch = "ZBVZeroBubble"}};

}  // namespace penstock
