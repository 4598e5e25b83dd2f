#include "simulator/costs/chosen_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "pipeline/program/schedule.hpp"
#include "simulator/costs/recompute_costs.hpp"

namespace penstock {

bool splits_backward(const Plan& plan) {
  if (plan.job.forward_only) return false;
  if (plan.schedule == adaptive_schedule) return true;
  return plan.program.empty() && !plan.schedule.empty() &&
         find_schedule(plan.schedule, plan.path).split_backward;
}

const MicrobatchCosts& measured(const Plan& plan, const Graph& model, const Profile& profile) {
  if (profile.model_sha256 != model.sha256) {
    throw InputError(profile.path,
                     fmt::format("the profile is of a model with SHA-256 {}, but {} has {}",
                                 profile.model_sha256, model.path, model.sha256),
                     "Profile this model again.");
  }
  const MicrobatchCosts* costs = profile.at(plan.microbatch);
  if (!costs) {
    std::string sizes;
    for (const MicrobatchCosts& size : profile.microbatches) {
      sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size.microbatch);
    }
    throw InputError(profile.path, fmt::format("microbatch {} was not measured", plan.microbatch),
                     fmt::format("Measured: {}. Choose one of them, or profile again.", sizes));
  }
  if (costs->operators.size() != model.operators.size()) {
    throw InputError(profile.path,
                     fmt::format("{} operators were measured, but {} has {}",
                                 costs->operators.size(), model.path, model.operators.size()),
                     "Profile this model again.");
  }
  if (splits_backward(plan) && !costs->knows_split_backward()) {
    throw InputError(profile.path,
                     fmt::format("schedule `{}` runs backwards in two parts, which the table gives "
                                 "as a whole",
                                 plan.schedule),
                     "Give `backward_input` and `backward_weight` of each layer.");
  }
  return *costs;
}

std::optional<MicrobatchCosts> chosen(const Plan& plan, const Graph& model, const Slicing& slicing,
                                      const Profile& profile) {
  const bool any = std::ranges::any_of(
      slicing.stages, [](const StageSlice& stage) { return !stage.choices.empty(); });
  if (!any) return std::nullopt;
  return with_choices(measured(plan, model, profile), slicing, profile.path);
}

}  // namespace penstock
