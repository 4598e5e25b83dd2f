#include "planner/layouts/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "planner/layouts/arrangement.hpp"

namespace penstock {

namespace {

/// Stages x microbatches beyond which `adaptive`, which makes up to 150 programs for every split,
/// is not searched.
constexpr int64_t max_adaptive_pairs = 512;

bool wanted(const PlanRequest& request, std::string_view name) {
  const auto& named = request.schedules;
  return named.empty() || std::ranges::find(named, name) != named.end();
}

std::string join(const std::vector<int64_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ", "));
}

/// The measured sizes that divide what one replica takes, largest first: fewest microbatches first.
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

[[noreturn]] void refuse(const Profile& profile, const PlanRequest& request, int devices,
                         int units) {
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
                     "Profile the job again.");
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

void check_replicas(const PlanRequest& request, int64_t batch) {
  if (!request.data_parallel || batch % *request.data_parallel == 0) return;
  throw InputError(
      "--data-parallel",
      fmt::format("a batch of {} does not divide into {} replicas", batch, *request.data_parallel),
      fmt::format("The nearest that do: {}.", dividing_counts(batch, *request.data_parallel)));
}

/// With one stage per rank the schedules for several are those for one by another name.
bool takes(const Schedule& schedule, int stages_per_rank) {
  return schedule.stages_per_rank == 0 ? stages_per_rank > 1
                                       : stages_per_rank == schedule.stages_per_rank;
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

/// Replicas that a batch divides into on so many groups of ranks.
std::vector<int64_t> replicas(const PlanRequest& request, int64_t batch, int64_t most) {
  std::vector<int64_t> result;
  for (int64_t count = 1; count <= std::min(most, batch); ++count) {
    if (request.data_parallel && count != *request.data_parallel) continue;
    if (batch % count == 0) result.push_back(count);
  }
  return result;
}

class Lister {
 public:
  Lister(const Profile& profile, const PlanRequest& request, const Cluster* cluster, int units)
      : profile_(profile), request_(request), cluster_(cluster), units_(units) {}

  void add(int ranks, int64_t data_parallel) {
    arrange(ranks, data_parallel);
    const auto sizes = sizes_for(profile_, request_, profile_.job.global_batch / data_parallel);
    for (int stages_per_rank = 1; ranks * stages_per_rank <= units_; ++stages_per_rank) {
      if (request_.stages_per_rank && stages_per_rank != *request_.stages_per_rank) continue;
      if (!request_.split.empty() && ranks * stages_per_rank != units_) continue;  // all are stages
      if (ranks == 1 && stages_per_rank > 1 && !request_.stages_per_rank) break;   // never shorter
      add(ranks, data_parallel, stages_per_rank, sizes);
    }
  }

  std::vector<PipelineLayout> take() { return std::move(layouts_); }

 private:
  void arrange(int ranks, int64_t data_parallel) {
    arranged_.clear();
    if (!cluster_) {
      const RankSpeeds equal(std::vector<double>(static_cast<size_t>(ranks), 1.0));
      arranged_.push_back(
          std::make_shared<const LayoutDevices>(LayoutDevices{std::nullopt, equal}));
      return;
    }
    for (std::vector<int>& devices : arrangements(*cluster_, ranks, data_parallel)) {
      Cluster used = devices.empty() ? *cluster_ : on_devices(*cluster_, std::move(devices));
      const RankSpeeds speeds(used, ranks, data_parallel);
      arranged_.push_back(
          std::make_shared<const LayoutDevices>(LayoutDevices{std::move(used), speeds}));
    }
  }

  void add(int ranks, int64_t data_parallel, int stages_per_rank,
           const std::vector<const MicrobatchCosts*>& sizes) {
    PipelineLayout layout{
        .ranks = ranks, .stages_per_rank = stages_per_rank, .data_parallel = data_parallel};
    for (const Schedule& schedule : schedules()) {
      if (!wanted(request_, schedule.name) || !runs(schedule, layout)) continue;
      layout.schedule = &schedule;
      add_sizes(layout, sizes);
    }
    layout.schedule = nullptr;
    if (wanted(request_, adaptive_schedule) && worth(layout, true) && !profile_.job.forward_only)
      add_sizes(layout, sizes);
  }

  bool runs(const Schedule& schedule, const PipelineLayout& layout) const {
    if (repeats(schedule)) return false;
    return worth(layout, schedule.split_backward) && takes(schedule, layout.stages_per_rank);
  }

  /// Without backwards it is another schedule by another name.
  bool repeats(const Schedule& schedule) const {
    if (!profile_.job.forward_only || !request_.schedules.empty()) return false;
    const auto first = std::ranges::find_if(schedules(), &Schedule::alternates);
    return schedule.split_backward || (schedule.alternates && &schedule != &*first);
  }

  /// On one rank nothing is gained by a backward in two parts.
  bool worth(const PipelineLayout& layout, bool split_backward) const {
    return layout.ranks > 1 || !split_backward || !request_.schedules.empty();
  }

  void add_sizes(PipelineLayout layout, const std::vector<const MicrobatchCosts*>& sizes) {
    for (const MicrobatchCosts* size : sizes) {
      layout.measured = size;
      layout.microbatches = profile_.job.global_batch / layout.data_parallel / size->microbatch;
      const int64_t pairs = int64_t{layout.stages()} * layout.microbatches;
      if (!layout.schedule && request_.schedules.empty() && pairs > max_adaptive_pairs) continue;
      for (const auto& devices : arranged_) {
        layout.devices = devices;
        layouts_.push_back(layout);
      }
    }
  }

  const Profile& profile_;
  const PlanRequest& request_;
  const Cluster* cluster_;
  const int units_;
  std::vector<std::shared_ptr<const LayoutDevices>>
      arranged_;  // for the ranks and replicas at hand
  std::vector<PipelineLayout> layouts_;
};

}  // namespace

Program PipelineLayout::compute() const {
  return schedule ? schedule->generate(shape()) : empty_program(StagePlacement::loop, shape());
}

std::vector<PipelineLayout> layouts(const Profile& profile, const PlanRequest& request,
                                    const Cluster* cluster, int devices, int units, bool branches) {
  for (const std::string& name : request.schedules) check_schedule(name, "--schedule");
  if (profile.job.forward_only) check_has_forwards(request);
  check_stages_per_rank(request);
  check_replicas(request, profile.job.global_batch);
  Lister list(profile, request, cluster, units);
  for (int ranks = 1; ranks <= std::min(devices, units); ++ranks) {
    for (const int64_t count : replicas(request, profile.job.global_batch, devices / ranks)) {
      list.add(ranks, count);
    }
  }
  std::vector<PipelineLayout> found = list.take();
  const size_t along_the_chain = found.size();
  for (size_t i = 0; branches && i < along_the_chain; ++i) {
    if (found[i].stages() == 1) continue;
    found.push_back(found[i]);
    found.back().branches = true;
  }
  if (found.empty()) refuse(profile, request, devices, units);
  return found;
}

MemoryLimit memory_limit(const Profile& profile, const PlanRequest& request,
                         const PipelineLayout& layout, int64_t parts) {
  MemoryLimit limit =
      request.memory_bytes
          ? MemoryLimit{.max_bytes = *request.memory_bytes, .source = "--memory"}
          : device_memory(profile, layout.cluster(), layout.ranks, layout.data_parallel, parts);
  if (limit.any()) limit.max_bytes += request.more_memory_bytes;
  return limit;
}

}  // namespace penstock
