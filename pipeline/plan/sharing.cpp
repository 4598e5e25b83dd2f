#include "pipeline/plan/sharing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace penstock {

namespace {

std::string shared_place(const Plan& plan, const std::string& name) {
  return fmt::format("{}: shared_parameters.{}", plan.path.empty() ? "plan" : plan.path, name);
}

int tensor_named(const Plan& plan, const std::map<std::string, int>& tensors,
                 const std::string& name) {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const auto& [known, index] : tensors) names.push_back(known);
  throw InputError(shared_place(plan, name), "the model has no parameter of this name",
                   did_you_mean(name, names));
}

/// The entry of a parameter that is to be transmitted: several ranks hold it.
Slicing::Shared& held_by_several(const Plan& plan, const std::string& name, int tensor,
                                 Slicing& slicing) {
  const auto shared = std::ranges::find(slicing.shared, tensor, &Slicing::Shared::tensor);
  if (shared != slicing.shared.end() && !holders_of(*shared, ranks_of_stages(plan)).others.empty())
    return *shared;
  throw InputError(shared_place(plan, name),
                   "one rank alone uses it: there is nobody to send it to",
                   "Remove the line, or split the model so that stages of several ranks use it.");
}

}  // namespace

Holders holders_of(const Slicing::Shared& shared, const std::vector<int>& rank_of_stage) {
  Holders holders;
  holders.owner = rank_of_stage[static_cast<size_t>(shared.stages.front())];
  std::set<int> others;
  for (const int stage : shared.stages) others.insert(rank_of_stage[static_cast<size_t>(stage)]);
  others.erase(holders.owner);
  holders.others.assign(others.begin(), others.end());
  return holders;
}

std::vector<int> ranks_of_stages(const Plan& plan) {
  std::vector<int> ranks;
  ranks.reserve(plan.stages.size());
  for (const StagePlan& stage : plan.stages) ranks.push_back(stage.rank);
  return ranks;
}

void note_shared(const Plan& plan, const Graph& model, Slicing& slicing) {
  if (plan.shared_parameters.empty()) return;
  const std::map<std::string, int> tensors = model.tensor_by_name();
  std::map<int, const std::pair<const std::string, std::string>*> said;  // by tensor
  for (const auto& entry : plan.shared_parameters) {
    const auto& [name, way] = entry;
    const int tensor = tensor_named(plan, tensors, name);
    const auto& first = *said.emplace(tensor, &entry).first->second;
    if (first.second != way) {
      throw InputError(shared_place(plan, name),
                       fmt::format("`{}`, but `{}`, which is the same parameter, has `{}`", way,
                                   first.first, first.second),
                       "Write one line for it.");
    }
    if (way != way_transmit || !model.tensors[static_cast<size_t>(tensor)].requires_grad) continue;
    held_by_several(plan, name, tensor, slicing).transmitted = true;
  }
}

}  // namespace penstock
