#include "planner/misfit.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/quantity.hpp"
#include "planner/plan.hpp"

namespace penstock {

namespace {

/// Ranks are doubled so often at most.
constexpr int max_doublings = 6;
/// Parts of the effort of the search for a plan: one for the plan that lacks least, as for
/// `adaptive`, which simulates most; and one for each other request.
constexpr int64_t share_for_least = 4, share_of_effort = 8;

struct Found {
  PipelineLayout layout;
  int64_t fullest_bytes;
  bool complete;
};

/// More than any device has.
constexpr int64_t any_number = int64_t{1} << 61;

std::optional<Found> search(const Misfit& misfit, const PlanRequest& request, int devices) {
  const LayoutSearch layouts(misfit.of.inputs(), misfit.of.chain(), request, devices);
  const SearchResult result = layouts.run(misfit.progress);
  if (!result.best) return std::nullopt;
  return Found{layouts.layouts()[result.best->space], result.best->outcome.peak_bytes,
               result.complete};
}

/// The plan that lacks least. Throws SearchStopped.
Found least(const Misfit& misfit) {
  PlanRequest request = misfit.of.request;
  request.objective = PlanObjective::memory;
  request.more_memory_bytes = any_number;
  request.effort /= share_for_least;
  const std::optional<Found> found = search(misfit, request, misfit.of.devices);
  if (!found) throw SearchStopped();
  return *found;
}

/// `2.0 GB on its fullest rank, 0.5 GB too much`.
std::string need(const Found& best, const MemoryLimit& limit) {
  const std::string lacks = format_bytes(best.fullest_bytes - limit.max_bytes) + " too much";
  if (!limit.reserved_bytes.empty()) return lacks + " on one of them";
  return fmt::format("{} on its fullest rank, {}", format_bytes(best.fullest_bytes), lacks);
}

/// A whole number of MiB that is enough.
std::string enough(int64_t bytes) { return fmt::format("{}MiB", (bytes + (1 << 20) - 1) >> 20); }

constexpr const char* shard_state = " --optimizer-state sharded";

/// The request with the optimizer's state shared out; nothing where that is no other one.
std::optional<PlanRequest> with_sharded_state(PlanRequest request, const PlanningInputs& inputs) {
  if (request.optimizer_state == OptimizerState::sharded || inputs.model.layers ||
      inputs.profile.job.forward_only || request.data_parallel == 1)
    return std::nullopt;
  request.optimizer_state = OptimizerState::sharded;
  return request;
}

/// Flags that ask for the tensor groups in which the model fits, on the same devices; "" where none
/// was found, or all were searched.
std::string of_groups(const Misfit& misfit) {
  PlanRequest request = misfit.request;
  if (!request.tensor_parallel || misfit.profile.groups.empty()) return "";
  request.tensor_parallel.reset();
  request.effort /= share_of_effort;
  std::vector<PlanRequest> requests{request};
  if (const auto sharded = with_sharded_state(request, misfit.of.inputs()))
    requests.push_back(*sharded);
  for (const PlanRequest& each : requests) {
    const auto models = rank_models(misfit.profile, misfit.model, misfit.cluster, each);
    const auto cases = search_cases(models, misfit.profile, misfit.model, each);
    const SearchCase* const best = penstock::search(cases, each, misfit.progress);
    if (!best || best->model->parts() == 1) continue;
    const bool sharded = best->request.optimizer_state != request.optimizer_state;
    return fmt::format(", or with --tensor-parallel {}{}", best->model->parts(),
                       sharded ? shard_state : "");
  }
  return "";
}

std::string flags(const PipelineLayout& layout) {
  return fmt::format("--schedule {} --microbatches {} --data-parallel {}", layout.name(),
                     layout.microbatches, layout.data_parallel);
}

/// Flags that ask for that shape; "" where nothing was found.
std::string of_other_shape(const Misfit& misfit, const PlanRequest& request) {
  if (const auto found = search(misfit, request, misfit.of.devices))
    return ", or with " + flags(found->layout);
  const auto sharded = with_sharded_state(request, misfit.of.inputs());
  if (!sharded) return "";
  const auto found = search(misfit, *sharded, misfit.of.devices);
  return found ? ", or with " + flags(found->layout) + shard_state : "";
}

/// Flags for `adaptive`, which has as few microbatches in flight as fit, and which large layouts
/// leave out unless asked for; "" where nothing was found.
std::string of_adaptive(const Misfit& misfit, PlanRequest request) {
  if (!request.schedules.empty() || !request.split.empty() || misfit.profile.job.forward_only)
    return "";
  request.schedules = {std::string(adaptive_schedule)};
  request.stages_per_rank = 1;
  request.effort = misfit.of.request.effort / share_for_least;
  const std::string flags = of_other_shape(misfit, request);
  return flags.empty() ? "" : flags + " --stages-per-rank 1";
}

/// Another request that would fit, as flags; "" where nothing was found.
std::string instead(const Misfit& misfit) {
  PlanRequest open = misfit.of.request;
  open.effort /= share_of_effort;
  if (const auto sharded = with_sharded_state(open, misfit.of.inputs()))
    if (search(misfit, *sharded, misfit.of.devices)) return std::string(", or with") + shard_state;
  if (const std::string flags = of_groups(misfit); !flags.empty()) return flags;
  open.schedules.clear();
  open.microbatches.reset();
  if (open.split.empty()) {
    open.stages_per_rank.reset();
    open.data_parallel.reset();
  }
  std::vector<std::string> known;  // warnings, given before
  open = within_table(std::move(open), misfit.profile, misfit.model, known);
  if (const std::string flags = of_other_shape(misfit, open); !flags.empty()) return flags;
  if (const std::string flags = of_adaptive(misfit, open); !flags.empty()) return flags;
  if (!misfit.request.split.empty()) return "";
  const Cluster* cluster = misfit.of.inputs().cluster;
  const bool counted = cluster && !cluster->nodes.empty();
  int devices = misfit.of.devices;
  for (int doubled = 0; doubled < max_doublings; ++doubled) {
    devices *= 2;
    if (counted && devices > cluster->ranks) break;
    if (search(misfit, open, devices))
      return fmt::format(", or on {} ranks with as much each", devices * misfit.of.inputs().parts);
  }
  return "";
}

}  // namespace

InputError does_not_fit(const Misfit& misfit) {
  const Found best = least(misfit);
  const MemoryLimit limit =
      memory_limit(misfit.profile, misfit.of.request, best.layout, misfit.of.inputs().parts);
  if (best.fullest_bytes <= limit.max_bytes)
    return InputError("--time",
                      fmt::format("the search ended before it found a plan that fits in {} per "
                                  "rank; there are some, one needs {}",
                                  format(limit), format_bytes(best.fullest_bytes)),
                      fmt::format("Give it more time, or ask for {} --stages-per-rank {}.",
                                  flags(best.layout), best.layout.stages_per_rank));
  return InputError(limit.source,
                    fmt::format("no plan {} in {} per rank: the best {}needs {}",
                                misfit.proven ? "fits" : "was found that fits", format(limit),
                                best.complete ? "" : "found ", need(best, limit)),
                    fmt::format("It would fit with {} per rank (--memory){}.",
                                enough(best.fullest_bytes), instead(misfit)));
}

}  // namespace penstock
