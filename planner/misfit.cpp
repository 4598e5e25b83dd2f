#include "planner/misfit.hpp"

#include <fmt/format.h>

#include <optional>

#include "pipeline/quantity.hpp"
#include "planner/layout_search.hpp"

namespace penstock {

namespace {

/// Ranks are doubled so often at most.
constexpr int most_doublings = 6;

struct Found {
  PipelineLayout layout;
  int64_t peak_bytes;
};

std::optional<Found> search(const Misfit& misfit, const PlanRequest& request, int devices) {
  const LayoutSearch layouts(misfit.inputs, misfit.chain, request, devices);
  const SearchResult result = layouts.run();
  if (!result.best) return std::nullopt;
  return Found{layouts.layouts()[result.best->space], result.best->outcome.peak_bytes};
}

/// The plan that holds least, whatever the limit.
Found least(const Misfit& misfit) {
  PlanRequest request = misfit.request;
  request.objective = PlanObjective::memory;
  request.memory_bytes = INT64_MAX;
  return *search(misfit, request, misfit.devices);
}

/// A whole number of MiB that is enough.
std::string enough(int64_t bytes) { return fmt::format("{}MiB", (bytes + (1 << 20) - 1) >> 20); }

/// What else would fit, as flags; "" where nothing was found.
std::string instead(const Misfit& misfit) {
  PlanRequest open = misfit.request;
  open.schedules.clear();
  open.microbatches.reset();
  if (open.split.empty()) {
    open.stages_per_rank.reset();
    open.data_parallel.reset();
  }
  if (const auto found = search(misfit, open, misfit.devices)) {
    return fmt::format(", with --schedule {} --microbatches {} --data-parallel {}",
                       found->layout.name(), found->layout.microbatches,
                       found->layout.data_parallel);
  }
  if (!misfit.request.split.empty()) return "";
  int devices = misfit.devices;
  for (int doubled = 0; doubled < most_doublings; ++doubled) {
    devices *= 2;
    if (search(misfit, open, devices))
      return fmt::format(", or on {} ranks with as much each", devices);
  }
  return "";
}

}  // namespace

InputError does_not_fit(const Misfit& misfit) {
  const Found best = least(misfit);
  const int used = best.layout.ranks * static_cast<int>(best.layout.data_parallel);
  const MemoryLimit limit =
      memory_limit(misfit.inputs.profile, best.layout.cluster(), misfit.request, used);
  return InputError(
      limit.source,
      fmt::format("no plan fits in {} per rank: the best needs {} on its fullest rank, "
                  "{} too much",
                  format_bytes(limit.bytes), format_bytes(best.peak_bytes),
                  format_bytes(best.peak_bytes - limit.bytes)),
      fmt::format("It would fit with {} per rank (--memory){}.", enough(best.peak_bytes),
                  instead(misfit)));
}

}  // namespace penstock
