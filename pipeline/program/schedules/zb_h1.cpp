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
#include "pipeline/program/schedules/zero_bubble.hpp"

namespace penstock {

Program zb_h1(const ScheduleShape& shape) { return zero_bubble("zb-h1", shape, 1); }

}  // namespace penstock
