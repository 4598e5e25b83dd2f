#include "planner/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.hpp"
#include "pipeline/quantity.hpp"
#include "planner/chain_bound.hpp"

namespace penstock {

namespace {

/// The search is over splits with one stage per rank and whole backwards.
bool searched(const Schedule& schedule) {
  return schedule.stages_per_rank == 1 && !schedule.split_backward;
}

std::vector<const Schedule*> chosen_schedules(const PlanRequest& request) {
  for (const std::string& name : request.schedules) {
    if (name != adaptive_schedule && searched(find_schedule(name, "--schedule"))) continue;
    throw InputError("--schedule",
                     fmt::format("{} is simulated and executed, but not searched yet", name),
                     "Choose gpipe or 1f1b, or leave the choice to auto.");
  }
  std::vector<const Schedule*> chosen;
  for (const Schedule& schedule : schedules()) {
    const auto& named = request.schedules;
    const bool wanted =
        named.empty() || std::find(named.begin(), named.end(), schedule.name) != named.end();
    if (wanted && searched(schedule)) chosen.push_back(&schedule);
  }
  return chosen;
}

std::string join(const std::vector<int64_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ", "));
}

/// The measured sizes that divide the batch, largest first: fewest microbatches first.
std::vector<const MicrobatchCosts*> usable_sizes(const Profile& profile) {
  std::vector<const MicrobatchCosts*> sizes;
  for (const MicrobatchCosts& size : profile.microbatches) {
    if (profile.job.global_batch % size.microbatch == 0) sizes.push_back(&size);
  }
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

std::string dividing_counts(int64_t batch, int64_t near) {
  std::vector<int64_t> counts;
  for (int64_t below = std::min(near, batch); below >= 1 && counts.empty(); --below)
    if (batch % below == 0) counts.push_back(below);
  for (int64_t above = near + 1; above <= batch; ++above) {
    if (batch % above != 0) continue;
    counts.push_back(above);
    break;
  }
  return join(counts);
}

std::vector<const MicrobatchCosts*> chosen_sizes(const Profile& profile,
                                                 const PlanRequest& request) {
  const int64_t batch = profile.job.global_batch;
  std::vector<const MicrobatchCosts*> usable = usable_sizes(profile);
  std::vector<int64_t> counts;
  counts.reserve(usable.size());
  for (const MicrobatchCosts* size : usable) counts.push_back(batch / size->microbatch);
  if (usable.empty())
    throw InputError(profile.path,
                     fmt::format("no measured microbatch size divides the batch of {}", batch),
                     "Profile the job again.");
  if (!request.microbatches) return usable;
  const int64_t wanted = *request.microbatches;
  if (wanted < 1 || batch % wanted != 0)
    throw InputError("--microbatches",
                     fmt::format("{} microbatches do not divide a batch of {}", wanted, batch),
                     fmt::format("The nearest that do: {}.", dividing_counts(batch, wanted)));
  if (const MicrobatchCosts* size = profile.at(batch / wanted)) return {size};
  throw InputError("--microbatches",
                   fmt::format("{} microbatches are of {} samples, which {} did not measure",
                               wanted, batch / wanted, profile.path),
                   fmt::format("Measured are counts of {}.", join(counts)));
}

}  // namespace

std::vector<Candidate> candidates(const Profile& profile, const PlanRequest& request, int ranks) {
  std::vector<Candidate> result;
  for (const Schedule* schedule : chosen_schedules(request)) {
    for (const MicrobatchCosts* size : chosen_sizes(profile, request)) {
      const int64_t count = profile.job.global_batch / size->microbatch;
      const Program program = schedule->generate({ranks, 1, static_cast<int>(count)});
      result.push_back({schedule, count, size, in_flight(program)});
    }
  }
  return result;
}

MemoryLimit memory_limit(const Profile& profile, const Cluster* cluster, const PlanRequest& request,
                         int ranks) {
  if (request.memory_bytes) return {*request.memory_bytes, "--memory"};
  return device_memory(profile, cluster, ranks);
}

}  // namespace penstock
