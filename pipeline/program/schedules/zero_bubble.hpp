// The order that ZB-H1 and ZB-H2 share (Qi et al., "Zero Bubble Pipeline Parallelism", 2023): I as
// early as possible, because the ranks before wait for it, and W wherever a rank would idle.
#pragma once

#include "pipeline/program/schedule.hpp"

namespace penstock {

/// Rank r starts with `per_hop` (P-1-r) forwards and runs its first W once per_hop (P-1) forwards
/// or backwards have passed.
void write_zero_bubble(const ScheduleShape& shape, int rank, int per_hop, RankWriter& write);

}  // namespace penstock
