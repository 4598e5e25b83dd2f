#include "planner/layouts/allowed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "pipeline/job/batch.hpp"

namespace penstock {

bool wanted(const PlanRequest& request, std::string_view name) {
  const auto& named = request.schedules;
  return named.empty() || std::ranges::find(named, name) != named.end();
}

std::vector<const MicrobatchCosts*> sizes_for(const Profile& profile, const PlanRequest& request,
                                              int64_t samples) {
  std::vector<const MicrobatchCosts*> sizes;
  for (const MicrobatchCosts& size : profile.microbatches) {
    if (samples % size.microbatch != 0) continue;
    if (request.microbatches && samples / size.microbatch != *request.microbatches) continue;
    sizes.push_back(&size);
  }
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

bool takes(const Schedule& schedule, int stages_per_rank) {
  return schedule.stages_per_rank == 0 ? stages_per_rank > 1
                                       : stages_per_rank == schedule.stages_per_rank;
}

std::vector<int64_t> replicas(const PlanRequest& request, int64_t batch, int64_t most) {
  std::vector<int64_t> result;
  for (int64_t count = 1; count <= std::min(most, batch); ++count) {
    if (request.data_parallel && count != *request.data_parallel) continue;
    if (batch % count == 0) result.push_back(count);
  }
  return result;
}

namespace {

std::string join(const std::vector<int64_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ", "));
}

std::string dividing_counts(int64_t batch, int64_t near) {
  const std::vector<int64_t> all = divisors(batch);
  const auto above = std::ranges::upper_bound(all, near);  // not the first: 1 is below
  return fmt::format("{}", fmt::join(above - 1, above == all.end() ? above : above + 1, ", "));
}

void check_replicas(const PlanRequest& request, int64_t batch) {
  if (!request.data_parallel || batch % *request.data_parallel == 0) return;
  throw InputError(
      "--data-parallel",
      fmt::format("a batch of {} does not divide into {} replicas", batch, *request.data_parallel),
      fmt::format("The nearest that do: {}.", dividing_counts(batch, *request.data_parallel)));
}

/// One of the schedules that were named, if any, takes so many stages per rank; `adaptive` takes
/// any.
void check_stages_per_rank(const PlanRequest& request) {
  if (!request.stages_per_rank || request.schedules.empty()) return;
  const int stages = *request.stages_per_rank;
  std::string named;
  for (const std::string& name : request.schedules) {
    if (name == adaptive_schedule) return;
    const Schedule& schedule = find_schedule(name, "--schedule");
    if (takes(schedule, stages)) return;
    const int needed = schedule.stages_per_rank;
    named += fmt::format("{}{} runs {} on each rank", named.empty() ? "" : ", ", name,
                         needed == 0   ? "2 stages or more"
                         : needed == 1 ? "one stage"
                                       : fmt::format("{} stages", needed));
  }
  std::string able;
  for (const Schedule& schedule : schedules())
    if (takes(schedule, stages)) able += fmt::format("{}, ", schedule.name);
  throw InputError("--stages-per-rank", fmt::format("{}, but {}", stages, named),
                   fmt::format("With {} run {}{}; or leave --stages-per-rank out.", stages, able,
                               adaptive_schedule));
}

/// `adaptive` is made of backwards.
void check_has_forwards(const PlanRequest& request) {
  if (std::ranges::find(request.schedules, adaptive_schedule) == request.schedules.end()) return;
  throw InputError("--schedule", "adaptive finds places for backwards, of which there are none",
                   "Leave it out, or name gpipe: forwards alone have little to choose from.");
}

}  // namespace

void check_layouts(const Profile& profile, const PlanRequest& request) {
  for (const std::string& name : request.schedules) check_schedule(name, "--schedule");
  if (profile.job.forward_only) check_has_forwards(request);
  check_stages_per_rank(request);
  check_replicas(request, profile.job.global_batch);
}

void refuse_layouts(const Profile& profile, const PlanRequest& request, int devices, int units) {
  const int64_t batch = profile.job.global_batch;
  std::vector<int64_t> counts;
  for (const MicrobatchCosts* size : sizes_for(profile, {}, batch)) {
    counts.push_back(batch / size->microbatch);
  }
  if (!counts.empty() && !request.microbatches)
    throw InputError(
        "--schedule",
        fmt::format("nothing that was asked for runs on {} with {}", format_number(devices, "rank"),
                    format_number(units, "unit")),
        "Leave out --schedule, --stages-per-rank or --data-parallel, or name more cuts "
        "with --split.");
  if (counts.empty())
    throw InputError(profile.path,
                     fmt::format("no measured microbatch size divides the batch of {}", batch),
                     of_layers(profile) ? "Give costs at a `microbatch` that divides it."
                                        : "Profile the job again.");
  const int64_t wanted = *request.microbatches;
  if (wanted < 1 || batch % wanted != 0)
    throw InputError("--microbatches",
                     fmt::format("{} microbatches do not divide a batch of {}", wanted, batch),
                     fmt::format("The nearest that do: {}.", dividing_counts(batch, wanted)));
  throw InputError("--microbatches",
                   fmt::format("{} microbatches are of {} samples, which {} did not measure",
                               wanted, batch / wanted, profile.path),
                   fmt::format("Measured are counts of {}.", join(counts)));
}

}  // namespace penstock
