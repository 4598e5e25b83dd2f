// Shared by all schedules: which shapes they refuse, and the way from an entry to a program.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "pipeline/program/schedule.hpp"
#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

namespace {

using Refusal = Schedule::Refusal;

/// Actions of 40 bytes, two or three for each forward, and as many transfers: some gigabytes.
constexpr int64_t max_forwards = int64_t{1} << 25;

std::optional<Refusal> too_few(std::string_view what, int value) {
  if (value >= 1) return std::nullopt;
  return Refusal{fmt::format("{} {} is too few", value, what), "The least is 1."};
}

std::optional<Refusal> too_large(const ScheduleShape& shape) {
  const int64_t stages = int64_t{shape.ranks} * shape.stages_per_rank;
  if (stages <= max_forwards / shape.microbatches) return std::nullopt;
  return Refusal{fmt::format("{} stages x {} microbatches are too many for one program", stages,
                             shape.microbatches),
                 fmt::format("With these stages at most {} microbatches are possible.",
                             max_forwards / stages)};
}

std::optional<Refusal> other_stages(int needed, const ScheduleShape& shape) {
  if (needed == 0 || shape.stages_per_rank == needed) return std::nullopt;
  return Refusal{
      fmt::format("{} stages per rank are not possible", shape.stages_per_rank),
      fmt::format("This schedule runs {} on each rank, {} in all.", needed, needed * shape.ranks)};
}

}  // namespace

std::optional<Refusal> Schedule::refusal(const ScheduleShape& shape) const {
  if (auto why = too_few("ranks", shape.ranks)) return why;
  if (auto why = too_few("stages per rank", shape.stages_per_rank)) return why;
  if (auto why = too_few("microbatches", shape.microbatches)) return why;
  if (auto why = too_large(shape)) return why;
  if (auto why = other_stages(stages_per_rank, shape)) return why;
  return microbatches ? microbatches(shape) : std::nullopt;
}

Program Schedule::generate(const ScheduleShape& shape) const {
  if (const auto why = refusal(shape)) {
    throw InputError(fmt::format("schedule {}", name), why->problem, why->cure);
  }
  Program program = empty_program(placement, shape);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    RankWriter writer(program, rank);
    write(shape, rank, writer);
  }
  return program;
}

Program empty_program(StagePlacement placement, const ScheduleShape& shape) {
  const int ranks = shape.ranks;
  Program program;
  program.microbatches = shape.microbatches;
  program.ranks.resize(static_cast<size_t>(ranks));
  for (int stage = 0; stage < ranks * shape.stages_per_rank; ++stage) {
    const bool loops = placement == StagePlacement::loop;
    program.rank_of_stage.push_back(loops ? stage % ranks : std::min(stage, 2 * ranks - 1 - stage));
  }
  return program;
}

}  // namespace penstock
