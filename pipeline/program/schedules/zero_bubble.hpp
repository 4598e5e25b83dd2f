// What ZB-H1 and ZB-H2 share (Qi et al., "Zero Bubble Pipeline Parallelism", 2023): I as early as
// possible, because the ranks before wait for it, and W wherever a rank would idle.
#pragma once

#include <string_view>

#include "pipeline/program/schedule.hpp"

namespace penstock {

/// Rank r starts with `per_hop` (P-1-r) forwards and runs its first W once per_hop (P-1) forwards
/// or backwards have passed.
Program zero_bubble(std::string_view schedule, const ScheduleShape& shape, int per_hop);

}  // namespace penstock
