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
#include "pipeline/program/schedules/zero_bubble.hpp"

namespace penstock {

Program zb_h2(const ScheduleShape& shape) { return zero_bubble("zb-h2", shape, 2); }

}  // namespace penstock
