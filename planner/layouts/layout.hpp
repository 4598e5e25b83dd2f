// The planner's choices beside the split: schedule, ranks, stages per rank, replicas,
// microbatches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "pipeline/profile/profile.hpp"
#include "pipeline/program/schedule.hpp"
#include "planner/layouts/request.hpp"
#include "planner/model/rank_speeds.hpp"
#include "simulator/costs/memory_limit.hpp"

namespace penstock {

/// Which devices the ranks of all replicas use.
struct LayoutDevices {
  std::optional<Cluster> cluster;  // arranged for them
  RankSpeeds speeds;
};

struct PipelineLayout {
  const Schedule* schedule = nullptr;  // null: adaptive
  int ranks = 1, stages_per_rank = 1;
  int64_t data_parallel = 1, microbatches = 1;  // microbatches of one replica
  const MicrobatchCosts* measured = nullptr;    // at their size
  std::shared_ptr<const LayoutDevices> devices;
  bool branches = false;  // split along the model's branches, not its chain

  int stages() const { return ranks * stages_per_rank; }
  std::string_view name() const { return schedule ? schedule->name : adaptive_schedule; }
  ScheduleShape shape() const { return {ranks, stages_per_rank, static_cast<int>(microbatches)}; }
  const Cluster* cluster() const { return devices->cluster ? &*devices->cluster : nullptr; }
  const RankSpeeds& speeds() const { return devices->speeds; }
  /// Why the schedule does not run the shape; `adaptive` runs any.
  std::optional<Schedule::Refusal> refusal() const {
    return schedule ? schedule->refusal(shape()) : std::nullopt;
  }
  /// Throws InputError for a shape that the schedule does not run. The stages of `adaptive`, which
  /// has no actions before its costs are known, loop over the ranks.
  Program compute() const;
};

/// As asked for, or what the layout's devices have; and what the request has on top.
MemoryLimit memory_limit(const Profile& profile, const PlanRequest& request,
                         const PipelineLayout& layout, int64_t parts = 1);

}  // namespace penstock
