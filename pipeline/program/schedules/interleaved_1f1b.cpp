// Interleaved 1F1B (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters", 2021): v stages per rank, visited in rounds, cut the ramp to 1/v.
//
//   P = 2, v = 2, M = 4, B twice as long as F; small letters are the second stage of a rank
//
//   time ->
//   rank 0  F0 F1 f0 f1 F2 .  b0 b0 F3 b1 b1 f2 B0 B0 f3 B1 B1 .  b2 b2 .  b3 b3 B2 B2 B3 B3
//   rank 1  .  F0 F1 f0 b0 b0 f1 b1 b1 F2 B0 B0 F3 B1 B1 f2 b2 b2 f3 b3 b3 B2 B2 B3 B3 .  .
//
// Rank r holds min(M v, (v-1) K + 2 (P-1-r) + 1) microbatches, K in a round. Idle: (P-1)(F+B)/v, F
// and B those of a whole rank.
#include <algorithm>

#include "pipeline/program/schedules/interleaving.hpp"
#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

namespace {

void write_interleaved_1f1b(const ScheduleShape& shape, int rank, RankWriter& write) {
  const Interleaving order(shape);
  const int warm_up = order.warm_up(rank, 2);
  // warm-up: F F F …
  for (int i = 0; i < warm_up; ++i) write.forward(order.forward_stage(rank, i));
  // steady: F B F B …
  for (int i = warm_up; i < order.total(); ++i) {
    write.forward(order.forward_stage(rank, i));
    write.backward(order.backward_stage(rank, i - warm_up));
  }
  // cool-down: B B …
  for (int i = order.total() - warm_up; i < order.total(); ++i) {
    write.backward(order.backward_stage(rank, i));
  }
}

int held_interleaved_1f1b(const ScheduleShape& shape, int rank) {
  const Interleaving order(shape);
  return std::min(order.total(), order.warm_up(rank, 2) + 1);
}

}  // namespace

constinit const Schedule interleaved_1f1b = {
    .name = "interleaved-1f1b",
    .description = "1F1B with several stages per rank in turn: a shorter ramp",
    .write = write_interleaved_1f1b,
    .held = held_interleaved_1f1b,
    .idle_s = looped_idle_s,
    .microbatches = refuse_unequal_rounds,
    .tools = {.torch = "Interleaved1F1B", .megatron = "interleaved 1F1B"}};

}  // namespace penstock
