#include "planner/layouts/layout_list.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/layouts/allowed.hpp"
#include "planner/layouts/arrangement.hpp"
#include "simulator/costs/core_use.hpp"

namespace penstock {

namespace {

/// Stages x microbatches beyond which `adaptive`, which makes up to 150 programs for every split,
/// is not searched.
constexpr int64_t max_adaptive_pairs = 512;

std::vector<std::shared_ptr<const LayoutDevices>> arranged(const PlanningInputs& inputs, int ranks,
                                                           int64_t data_parallel) {
  std::vector<std::shared_ptr<const LayoutDevices>> all;
  const auto add = [&](LayoutDevices one) {
    all.push_back(std::make_shared<const LayoutDevices>(std::move(one)));
  };
  if (!inputs.cluster) {
    const double speed =
        core_use(inputs.profile, nullptr, ranks, data_parallel, inputs.parts).speed;
    add({std::nullopt, RankSpeeds(std::vector<double>(static_cast<size_t>(ranks), speed))});
    return all;
  }
  const Cluster& cluster = *inputs.cluster;
  for (std::vector<int>& devices : arrangements(cluster, ranks, data_parallel)) {
    Cluster used = devices.empty() ? cluster : on_devices(cluster, std::move(devices));
    const RankSpeeds speeds(used, ranks, data_parallel);
    add({std::move(used), speeds});
  }
  return all;
}

}  // namespace

LayoutList::LayoutList(const PlanningInputs& inputs, const PlanRequest& request, int devices,
                       int units, bool branches)
    : inputs_(inputs), request_(request), units_(units) {
  const Profile& profile = inputs.profile;
  check_layouts(profile, request);
  for (int ranks = 1; ranks <= std::min(devices, units); ++ranks) {
    for (const int64_t count : replicas(request, profile.job.global_batch, devices / ranks))
      add({ranks, count, false, arranged(inputs, ranks, count), 0, 0});
  }
  const size_t along_the_chain = blocks_.size();
  for (size_t i = 0; branches && i < along_the_chain; ++i) {
    Block block = blocks_[i];
    block.branches = true;
    add(std::move(block));
  }
}

void LayoutList::add(Block block) {
  block.begin = block.end = blocks_.empty() ? 0 : size();
  each(block, [&](const PipelineLayout&) { block.end += block.devices.size(); });
  if (block.end > block.begin) blocks_.push_back(std::move(block));
}

std::vector<PipelineLayout> LayoutList::of(const Block& block) const {
  std::vector<PipelineLayout> layouts;
  layouts.reserve(block.end - block.begin);
  each(block, [&](const PipelineLayout& layout) {
    for (const auto& devices : block.devices) {
      layouts.push_back(layout);
      layouts.back().devices = devices;
    }
  });
  return layouts;
}

PipelineLayout LayoutList::operator[](size_t number) const {
  const auto behind = std::ranges::upper_bound(blocks_, number, {}, &Block::begin);
  const Block& block = *std::prev(behind);
  return of(block)[number - block.begin];
}

template <typename Call>
void LayoutList::each(const Block& block, const Call& call) const {
  const Profile& profile = inputs_.profile;
  const auto sizes = sizes_for(profile, request_, profile.job.global_batch / block.data_parallel);
  PipelineLayout layout{
      .ranks = block.ranks, .data_parallel = block.data_parallel, .branches = block.branches};
  const auto each_size = [&] {
    for (const MicrobatchCosts* size : sizes) {
      layout.measured = size;
      layout.microbatches = profile.job.global_batch / layout.data_parallel / size->microbatch;
      const int64_t pairs = int64_t{layout.stages()} * layout.microbatches;
      if (!layout.schedule && request_.schedules.empty() && pairs > max_adaptive_pairs) continue;
      call(std::as_const(layout));
    }
  };
  for (int stages = 1; block.ranks * stages <= units_; ++stages) {
    layout.stages_per_rank = stages;
    if (!takes_stages(block.ranks, stages) || (block.branches && layout.stages() == 1)) continue;
    for (const Schedule& schedule : schedules()) {
      if (!runs(schedule, layout)) continue;
      layout.schedule = &schedule;
      each_size();
    }
    layout.schedule = nullptr;
    if (wanted(request_, adaptive_schedule) && worth(layout, true) && !profile.job.forward_only)
      each_size();
  }
}

bool LayoutList::takes_stages(int ranks, int stages_per_rank) const {
  if (request_.stages_per_rank) {
    if (stages_per_rank != *request_.stages_per_rank) return false;
  } else if (ranks == 1 && stages_per_rank > 1) {
    return false;  // never shorter
  }
  return request_.split.empty() || ranks * stages_per_rank == units_;  // all are stages
}

bool LayoutList::runs(const Schedule& schedule, const PipelineLayout& layout) const {
  if (!wanted(request_, schedule.name) || repeats(schedule)) return false;
  return worth(layout, schedule.split_backward) && takes(schedule, layout.stages_per_rank);
}

/// Without backwards it is another schedule by another name.
bool LayoutList::repeats(const Schedule& schedule) const {
  if (!inputs_.profile.job.forward_only || !request_.schedules.empty()) return false;
  const auto first = std::ranges::find_if(schedules(), &Schedule::alternates);
  return schedule.split_backward || (schedule.alternates && &schedule != &*first);
}

/// On one rank nothing is gained by a backward in two parts.
bool LayoutList::worth(const PipelineLayout& layout, bool split_backward) const {
  return layout.ranks > 1 || !split_backward || !request_.schedules.empty();
}

}  // namespace penstock
