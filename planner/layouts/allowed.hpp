// A request's choices for each property of a layout, and requests that no layout meets.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pipeline/profile/profile.hpp"
#include "pipeline/program/schedule.hpp"
#include "planner/layouts/request.hpp"

namespace penstock {

/// Is the schedule, or `adaptive`, one of those asked for?
bool wanted(const PlanRequest& request, std::string_view schedule);

/// The measured sizes that divide what one replica takes, largest first: fewest microbatches first.
std::vector<const MicrobatchCosts*> sizes_for(const Profile& profile, const PlanRequest& request,
                                              int64_t samples);

/// With one stage per rank the schedules for several are those for one by another name.
bool takes(const Schedule& schedule, int stages_per_rank);

/// Replicas that a batch divides into on so many groups of ranks.
std::vector<int64_t> replicas(const PlanRequest& request, int64_t batch, int64_t most);

/// Throws InputError for a schedule that does not exist and for numbers that nothing fits (naming
/// the nearest that something does).
void check_layouts(const Profile& profile, const PlanRequest& request);

/// Throws InputError: nothing that the request allows runs on so many devices.
[[noreturn]] void refuse_layouts(const Profile& profile, const PlanRequest& request, int devices,
                                 int units);

}  // namespace penstock
