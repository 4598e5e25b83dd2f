#include "planner/search_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace penstock {

namespace {

std::vector<OptimizerState> states(const PlanRequest& request, const Profile& profile,
                                   const Graph& model) {
  if (request.optimizer_state) return {*request.optimizer_state};
  const bool shares = !model.layers && !profile.job.forward_only && request.data_parallel != 1;
  if (!shares) return {OptimizerState::replicated};
  return {OptimizerState::replicated, OptimizerState::sharded};
}

/// The request for plans of that model. Throws InputError where there can be none.
PlanRequest for_model(PlanRequest request, const RankModel& model) {
  if (model.parts() == 1) return request;
  if (request.sharing == PlanSharing::transmit)
    throw InputError("--shared-parameters", "tensor groups do not transmit parameters",
                     "Leave it out, or plan with --tensor-parallel 1.");
  request.sharing = PlanSharing::replicate;
  if (request.ranks) *request.ranks /= model.parts();
  if (request.ranks == 0)
    throw InputError("--ranks",
                     fmt::format("fewer ranks than a tensor group of {} has", model.parts()),
                     "Ask for more ranks, or for a smaller --tensor-parallel.");
  return request;
}

/// The findings of the spaces [begin, begin + count), numbered from 0, taken out of `all`.
SearchResult part_of(SearchResult& all, size_t begin, size_t count) {
  SearchResult part{.best = {},
                    .complete = all.complete,
                    .open_bound_s = all.open_bound_s,
                    .stopped = all.stopped,
                    .spaces = {}};
  const auto first = all.spaces.begin() + static_cast<std::ptrdiff_t>(begin);
  part.spaces.assign(std::move_iterator(first),
                     std::move_iterator(first + static_cast<std::ptrdiff_t>(count)));
  for (SearchResult::Space& space : part.spaces)
    if (space.best) space.best->space -= begin;
  if (all.best && all.best->space >= begin && all.best->space - begin < count)
    part.best = part.spaces[all.best->space - begin].best;
  return part;
}

}  // namespace

SearchCase::SearchCase(std::shared_ptr<const RankModel> of, PlanRequest asked, int all_devices)
    : model(std::move(of)),
      request(std::move(asked)),
      devices(all_devices),
      search(inputs(), chain(), request, devices) {}

std::vector<std::unique_ptr<SearchCase>> search_cases(const RankModels& models,
                                                      const Profile& profile, const Graph& model,
                                                      const PlanRequest& request) {
  std::vector<std::unique_ptr<SearchCase>> cases;
  std::optional<InputError> refused;
  for (const std::shared_ptr<const RankModel>& of : models) {
    for (const OptimizerState state : states(request, profile, model)) {
      try {
        PlanRequest asked = for_model(request, *of);
        asked.optimizer_state = state;
        const int devices = choose_devices(asked, of->inputs().cluster, of->chain().units());
        cases.push_back(std::make_unique<SearchCase>(of, std::move(asked), devices));
      } catch (const InputError& error) {
        if (!refused) refused = error;
      }
    }
  }
  if (cases.empty()) throw *refused;  // no model has no states
  return cases;
}

SearchCase* search(const std::vector<std::unique_ptr<SearchCase>>& cases,
                   const PlanRequest& request, const LayoutSearch::Progress& progress) {
  std::vector<SearchSpace> spaces;
  for (const auto& each : cases)
    for (SearchSpace& space : each->search.spaces()) spaces.push_back(std::move(space));
  SearchResult all = search_splits(spaces, split_search(request, progress));
  SearchCase* best = nullptr;
  size_t begin = 0;
  for (const auto& each : cases) {
    const size_t count = each->search.layouts().size();
    each->found = part_of(all, begin, count);
    if (each->found.best) best = each.get();
    begin += count;
  }
  return best;
}

}  // namespace penstock
