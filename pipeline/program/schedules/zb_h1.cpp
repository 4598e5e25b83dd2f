// ZB-H1 (Qi et al., 2023): the memory of 1F1B's fullest rank, a third of its bubble.
//
//   P = 4, M = 6, F, I and W equally long
//
//   time ->
//   rank 0  F0 F1 F2 F3 .  .  .  I0 W0 F4 I1 W1 F5 I2 W2 I3 W3 I4 W4 I5 W5
//   rank 1  .  F0 F1 F2 .  .  I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 I4 W3 I5 W4 W5
//   rank 2  .  .  F0 F1 .  I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 I5 W3 W4 W5
//   rank 3  .  .  .  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5
//
// Every rank holds min(M, P) microbatches until W. Idle: (P-1)(F+I-W) where W <= F and W <= I.
#include <algorithm>

#include "pipeline/program/schedules/zero_bubble.hpp"

namespace penstock {

namespace {

int held_zb_h1(const ScheduleShape& shape, int) {
  return std::min(shape.microbatches, shape.ranks);
}

std::optional<double> idle_zb_h1_s(const ScheduleShape& shape, const StageTimes& times) {
  const auto [forward_s, input_s, weight_s] = times;
  if (weight_s > std::min(forward_s, input_s)) return std::nullopt;
  const int filled = std::min(shape.microbatches, shape.ranks) - 1;
  return (shape.ranks - 1) * (forward_s + input_s) - filled * weight_s;
}

}  // namespace

constinit const Schedule zb_h1 = {
    .name = "zb-h1",
    .description = "I and W apart at the memory of 1F1B: a third of its bubble",
    .stages_per_rank = 1,
    .split_backward = true,
    .write = [](const ScheduleShape& shape, int rank,
                RankWriter& write) { write_zero_bubble(shape, rank, 1, write); },
    .held = held_zb_h1,
    .idle_s = idle_zb_h1_s};

}  // namespace penstock
