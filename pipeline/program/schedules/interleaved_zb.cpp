// Interleaved zero bubble (ZB1P of Qi et al., "Zero Bubble Pipeline Parallelism", 2023, with
// several stages per rank): the ramp of interleaved 1F1B is filled with W.
//
//   P = 2, v = 2, M = 4, F, I and W equally long; small letters are the second stage of a rank
//
//   time ->
//   rank 0  F0 F1 f0 f1 .  i0 w0 F2 i1 w1 F3 I0 W0 f2 I1 W1 f3 i2 w2 i3 w3 I2 W2 I3 W3
//   rank 1  .  F0 F1 f0 i0 f1 i1 w0 F2 I0 w1 F3 I1 W0 f2 i2 W1 f3 i3 w2 I2 w3 I3 W2 W3
//
// Rank r puts off its W until r others wait, and so every rank holds (v-1) K + P microbatches.
#include <algorithm>

#include "pipeline/program/schedules/interleaving.hpp"
#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

namespace {

void write_interleaved_zb(const ScheduleShape& shape, int rank, RankWriter& write) {
  const Interleaving order(shape);
  const int warm_up = order.warm_up(rank, 1);
  // warm-up: F F F …
  for (int i = 0; i < warm_up; ++i) write.forward(order.forward_stage(rank, i));
  // steady: F I F I …, from the r-th on F I W F I W …; cool-down: the same without F
  for (int i = 0; i < order.total(); ++i) {
    if (warm_up + i < order.total()) write.forward(order.forward_stage(rank, warm_up + i));
    write.backward_input(order.backward_stage(rank, i));
    if (i >= rank) write.oldest_backward_weight();
  }
  // the rest: W W …
  for (int i = 0; i < std::min(rank, order.total()); ++i) write.oldest_backward_weight();
}

int held_interleaved_zb(const ScheduleShape& shape, int) {
  const Interleaving order(shape);
  return std::min(order.total(), order.warm_up(0, 1) + 1);
}

std::optional<double> idle_interleaved_zb_s(const ScheduleShape& shape, const StageTimes& times) {
  const auto [forward_s, input_s, weight_s] = times;
  const bool full = shape.microbatches >= shape.ranks || shape.ranks == 1;
  if (!full || weight_s > std::min(forward_s, input_s)) return std::nullopt;
  return (shape.ranks - 1) * (forward_s + input_s - weight_s);
}

}  // namespace

constinit const Schedule interleaved_zb = {
    .name = "interleaved-zb",
    .description = "the same with I and W apart: W fills the gaps",
    .split_backward = true,
    .write = write_interleaved_zb,
    .held = held_interleaved_zb,
    .idle_s = idle_interleaved_zb_s,
    .microbatches = refuse_unequal_rounds,
    .tools = {.torch = "InterleavedZeroBubble"}};

}  // namespace penstock
