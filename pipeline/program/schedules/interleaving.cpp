#include "pipeline/program/schedules/interleaving.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace penstock {

namespace {

int rounds(int ranks, int microbatches) { return std::max(1, microbatches / ranks); }

bool divides(int ranks, int microbatches) {
  return microbatches >= 1 && microbatches % rounds(ranks, microbatches) == 0;
}

/// `6 or 8`: the nearest numbers of microbatches that the rounds divide.
std::string nearest(int ranks, int microbatches) {
  int below = microbatches, above = microbatches;
  while (!divides(ranks, below)) --below;
  while (!divides(ranks, above)) ++above;
  return fmt::format("{} or {}", below, above);
}

}  // namespace

std::optional<Schedule::Refusal> refuse_unequal_rounds(const ScheduleShape& shape) {
  if (divides(shape.ranks, shape.microbatches)) return std::nullopt;
  return Schedule::Refusal{fmt::format("{} microbatches do not make {} equal rounds",
                                       shape.microbatches, rounds(shape.ranks, shape.microbatches)),
                           fmt::format("With {} ranks the nearest numbers of microbatches are {}.",
                                       shape.ranks, nearest(shape.ranks, shape.microbatches))};
}

std::optional<double> looped_idle_s(const ScheduleShape& shape, const StageTimes& times) {
  const int missing = std::max(0, shape.ranks - shape.microbatches);
  return (shape.ranks - 1 + (shape.stages_per_rank - 1) * missing) * times.whole_s();
}

Interleaving::Interleaving(const ScheduleShape& shape)
    : shape_(shape), per_round_(shape.microbatches / rounds(shape.ranks, shape.microbatches)) {}

int Interleaving::warm_up(int rank, int per_hop) const {
  return std::min(total(),
                  (shape_.stages_per_rank - 1) * per_round_ + per_hop * (shape_.ranks - 1 - rank));
}

}  // namespace penstock
