#include "planner/infeasible.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "pipeline/quantity.hpp"
#include "planner/chain_memory.hpp"

namespace penstock {

namespace {

/// The plan that holds least among `candidates`, if that fits.
std::optional<Candidate> fitting(const Misfit& misfit, const PlanRequest& request, int ranks) {
  std::optional<Candidate> best;
  int64_t least = misfit.limit.bytes;
  for (const Candidate& candidate : candidates(misfit.profile, request, ranks)) {
    const StageTable table = misfit.chain.bytes(misfit.profile, *candidate.measured);
    const int64_t bytes = ChainMemory(table, ranks, candidate.in_flight).chain();
    if (bytes > least) continue;
    least = bytes;
    best = candidate;
  }
  return best;
}

/// The fewest ranks, more than asked for, with which a plan fits.
std::optional<int> fitting_ranks(const Misfit& misfit, const PlanRequest& request) {
  for (int ranks = misfit.ranks + 1; ranks <= misfit.chain.units(); ++ranks) {
    if (fitting(misfit, request, ranks)) return ranks;
  }
  return std::nullopt;
}

/// A whole number of MiB that is enough.
std::string enough(int64_t bytes) { return fmt::format("{}MiB", (bytes + (1 << 20) - 1) >> 20); }

}  // namespace

InputError does_not_fit(const Misfit& misfit) {
  const int64_t limit = misfit.limit.bytes, least = misfit.least_bytes;
  std::string cure = fmt::format("It would fit with {} per rank (--memory)", enough(least));
  PlanRequest open = misfit.request;
  open.schedules.clear();
  open.microbatches.reset();
  const bool restricted = !misfit.request.schedules.empty() || misfit.request.microbatches;
  const std::optional<Candidate> other =
      restricted ? fitting(misfit, open, misfit.ranks) : std::nullopt;
  if (other)
    cure += fmt::format(", with --schedule {} --microbatches {}", other->schedule->name,
                        other->microbatches);
  else if (misfit.request.split.empty())
    if (const std::optional<int> ranks = fitting_ranks(misfit, open))
      cure += fmt::format(", or on {} ranks with as much each", *ranks);
  return InputError(
      misfit.limit.source,
      fmt::format("no plan fits in {} per rank: the best needs {} on its fullest rank, "
                  "{} too much",
                  format_bytes(limit), format_bytes(least), format_bytes(least - limit)),
      cure + ".");
}

}  // namespace penstock
