#include "planner/either_state.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace penstock {

namespace {

/// The figure that the request asks to be least.
double objective_of(const PlanRequest& request, const Planned& planned) {
  const Plan& plan = planned.plan;
  if (request.objective == PlanObjective::memory)
    return static_cast<double>(*std::ranges::max_element(planned.simulation.peak_memory_bytes));
  const double devices = static_cast<double>(plan.ranks() * plan.data_parallel);
  return planned.expected_or_step_s() * (request.objective == PlanObjective::cost ? devices : 1);
}

/// The plan of one search, with what is proven by two together.
Planned of_both(Planned taken, const Planned& other) {
  if (!other.complete)
    taken.open_bound_s =
        taken.complete ? other.open_bound_s : std::min(taken.open_bound_s, other.open_bound_s);
  taken.complete &= other.complete;
  taken.stopped |= other.stopped;
  taken.lower_bound_s = std::min(taken.lower_bound_s, other.lower_bound_s);
  taken.plan.prediction->lower_bound_s = taken.lower_bound_s;
  return taken;
}

/// The progress of a search that is half of the whole one; `before`: how far that had come.
Progress half_of(const Progress& progress, double before) {
  if (!progress) return {};
  return [&progress, before](const std::string& what, double share_done) {
    progress(what, before + share_done / 2);
  };
}

}  // namespace

Planned plan_in_either_state(const Profile& profile, const Graph& model, const Cluster* cluster,
                             PlanRequest request, const Progress& progress) {
  std::optional<Planned> replicated;
  std::optional<InputError> misfit;  // of it
  try {
    request.optimizer_state = OptimizerState::replicated;
    replicated = make_plan(profile, model, cluster, request, half_of(progress, 0));
  } catch (const InputError& error) {  // it may fit sharded
    misfit = error;
  }
  if (replicated && replicated->stopped) return std::move(*replicated);
  try {
    request.optimizer_state = OptimizerState::sharded;
    Planned sharded = make_plan(profile, model, cluster, request, half_of(progress, 0.5));
    if (!replicated) return sharded;
    return objective_of(request, sharded) < objective_of(request, *replicated)
               ? of_both(std::move(sharded), *replicated)
               : of_both(std::move(*replicated), sharded);
  } catch (const InputError&) {
    if (misfit) throw *misfit;
  } catch (const SearchStopped&) {
    if (!replicated) throw;
    replicated->stopped = true;
  }
  return std::move(*replicated);
}

}  // namespace penstock
