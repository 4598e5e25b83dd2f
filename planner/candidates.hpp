// What the planner chooses from beside the split: schedules, microbatch counts, memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/profile.hpp"
#include "pipeline/schedule.hpp"
#include "planner/plan.hpp"
#include "simulator/memory_limit.hpp"

namespace penstock {

struct Candidate {
  const Schedule* schedule;
  int64_t microbatches;
  const MicrobatchCosts* measured;  // at that microbatch size
  std::vector<int> in_flight;       // microbatches per rank; empty if the order is of another kind
};

/// Every schedule with one stage per rank and whole backwards, or those asked for, with every
/// microbatch count whose size was measured, or the one asked for. In the order that decides ties:
/// the schedule table's, then fewer microbatches. Throws InputError for a schedule that does not
/// exist or cannot be planned, and for a count that does not divide the batch or was not measured.
std::vector<Candidate> candidates(const Profile& profile, const PlanRequest& request, int ranks);

/// As asked for, or what the devices have.
MemoryLimit memory_limit(const Profile& profile, const Cluster* cluster, const PlanRequest& request,
                         int ranks);

}  // namespace penstock
