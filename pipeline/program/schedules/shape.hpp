// What every schedule generator asks of its shape before it generates.
#pragma once

#include <string_view>

#include "pipeline/program/schedule.hpp"

namespace penstock {

/// Throws InputError unless ranks, stages per rank and microbatches are at least 1 and the program
/// is of a size that fits in memory.
void require_shape(std::string_view schedule, const ScheduleShape& shape);

/// The same, and one stage per rank.
void require_one_stage_per_rank(std::string_view schedule, const ScheduleShape& shape);

/// The same, and two.
void require_two_stages_per_rank(std::string_view schedule, const ScheduleShape& shape);

/// An empty program with stage s on rank s mod ranks (`loop`): 0 1 2 0 1 2.
Program loop_program(const ScheduleShape& shape);
/// With stages going down the ranks and up again (`V`): 0 1 2 2 1 0. Two stages per rank.
Program v_program(const ScheduleShape& shape);

}  // namespace penstock
