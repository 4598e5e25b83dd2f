// Checks that are common to all schedules.
#include "pipeline/program/schedules/shape.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace penstock {

namespace {

/// Actions of 40 bytes, two or three for each forward, and as many transfers: some gigabytes.
constexpr int64_t most_forwards = int64_t{1} << 25;

void require_positive(std::string_view schedule, std::string_view what, int value) {
  if (value >= 1) return;
  throw InputError(fmt::format("schedule {}", schedule),
                   fmt::format("{} {} is too few", value, what), "The least is 1.");
}

void require_stages_per_rank(std::string_view schedule, const ScheduleShape& shape, int needed) {
  require_shape(schedule, shape);
  if (shape.stages_per_rank == needed) return;
  throw InputError(
      fmt::format("schedule {}", schedule),
      fmt::format("{} stages per rank are not possible", shape.stages_per_rank),
      fmt::format("This schedule runs {} on each rank, {} in all.", needed, needed * shape.ranks));
}

}  // namespace

void require_shape(std::string_view schedule, const ScheduleShape& shape) {
  require_positive(schedule, "ranks", shape.ranks);
  require_positive(schedule, "stages per rank", shape.stages_per_rank);
  require_positive(schedule, "microbatches", shape.microbatches);
  const int64_t stages = int64_t{shape.ranks} * shape.stages_per_rank;
  if (stages > most_forwards / shape.microbatches) {
    throw InputError(fmt::format("schedule {}", schedule),
                     fmt::format("{} stages x {} microbatches are too many for one program", stages,
                                 shape.microbatches),
                     fmt::format("With these stages at most {} microbatches are possible.",
                                 most_forwards / stages));
  }
}

void require_one_stage_per_rank(std::string_view schedule, const ScheduleShape& shape) {
  require_stages_per_rank(schedule, shape, 1);
}

void require_two_stages_per_rank(std::string_view schedule, const ScheduleShape& shape) {
  require_stages_per_rank(schedule, shape, 2);
}

namespace {

Program empty_program(const ScheduleShape& shape, int (*rank_of_stage)(int stage, int ranks)) {
  Program program;
  program.microbatches = shape.microbatches;
  program.ranks.resize(static_cast<size_t>(shape.ranks));
  for (int stage = 0; stage < shape.ranks * shape.stages_per_rank; ++stage) {
    program.rank_of_stage.push_back(rank_of_stage(stage, shape.ranks));
  }
  return program;
}

}  // namespace

Program loop_program(const ScheduleShape& shape) {
  return empty_program(shape, [](int stage, int ranks) { return stage % ranks; });
}

Program v_program(const ScheduleShape& shape) {
  return empty_program(shape,
                       [](int stage, int ranks) { return std::min(stage, 2 * ranks - 1 - stage); });
}

}  // namespace penstock
