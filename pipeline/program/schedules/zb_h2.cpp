// ZB-H2 (Qi et al., 2023): twice the memory of 1F1B, no bubble inside a rank's span.
//
//   P = 3, M = 6, F, I and W equally long
//
//   time ->
//   rank 0  F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 .  .
//   rank 1  .  F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5 .
//   rank 2  .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5
//
// Every rank holds up to 2 P - 1 microbatches until W. A rank's span has (P-1) max(0, F+I-2W) idle
// where min(I, W) <= F and M >= 2 P - 1; ranks start and end later the further they are along the
// pipeline.
#include <algorithm>

#include "pipeline/program/schedules/zero_bubble.hpp"

namespace penstock {

namespace {

int held_zb_h2(const ScheduleShape& shape, int) {
  return std::min(shape.microbatches, 2 * shape.ranks - 1);
}

std::optional<double> idle_zb_h2_s(const ScheduleShape& shape, const StageTimes& times) {
  const auto [forward_s, input_s, weight_s] = times;
  const int hops = shape.ranks - 1;
  if (times.equal()) return (2 * hops - std::min(hops, shape.microbatches / 2)) * forward_s;
  const bool full = shape.microbatches >= 2 * shape.ranks - 1;
  if (!full || std::min(input_s, weight_s) > forward_s) return std::nullopt;
  return hops * std::max(forward_s, forward_s + input_s - 2 * weight_s);
}

}  // namespace

constinit const Schedule zb_h2 = {
    .name = "zb-h2",
    .description = "the same at twice the memory: hardly a bubble",
    .stages_per_rank = 1,
    .split_backward = true,
    .write = [](const ScheduleShape& shape, int rank,
                RankWriter& write) { write_zero_bubble(shape, rank, 2, write); },
    .held = held_zb_h2,
    .idle_s = idle_zb_h2_s};

}  // namespace penstock
