#include "planner/search_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "planner/layouts/allowed.hpp"
#include "planner/open/in_parallel.hpp"

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
  if (request.ranks) *request.ranks /= model.parts();
  if (request.ranks == 0)
    throw InputError("--ranks",
                     fmt::format("fewer ranks than a tensor group of {} has", model.parts()),
                     "Ask for more ranks, or for a smaller --tensor-parallel.");
  return request;
}

/// Its state is the same, sharded or not.
void without_one_replica(const PipelineLayout& layout, SearchSpace& space) {
  if (layout.data_parallel == 1) space.memory_limit = nothing_fits;
}

/// The findings of the spaces [begin, begin + count), numbered from 0, taken out of `all`.
SearchResult part_of(SearchResult& all, size_t begin, size_t count) {
  SearchResult part{.best = {},
                    .complete = all.complete,
                    .all_seen = all.all_seen,
                    .open_bound_s = all.open_bound_s,
                    .stopped = all.stopped,
                    .spaces = {},
                    .untouched_bound_s = all.untouched_bound_s};
  const auto end = all.spaces.lower_bound(begin + count);
  for (auto seen = all.spaces.lower_bound(begin); seen != end; ++seen) {
    SearchResult::Space& space = part.spaces[seen->first - begin] = std::move(seen->second);
    if (space.best) space.best->space -= begin;
  }
  if (all.best && all.best->space >= begin && all.best->space - begin < count)
    part.best = part.spaces.at(all.best->space - begin).best;
  return part;
}

}  // namespace

SearchCase::SearchCase(std::shared_ptr<const RankModel> of, PlanRequest asked, int all_devices)
    : model(std::move(of)),
      request(std::move(asked)),
      devices(all_devices),
      search(inputs(), chain(), request, devices) {
  if (search.layouts().size() == 0)
    refuse_layouts(inputs().profile, request, devices, chain().units());
}

std::vector<std::unique_ptr<SearchCase>> search_cases(const RankModels& models,
                                                      const Profile& profile, const Graph& model,
                                                      const PlanRequest& request) {
  std::vector<std::pair<std::shared_ptr<const RankModel>, OptimizerState>> kinds;
  for (const auto& of : models)
    for (const OptimizerState state : states(request, profile, model))
      kinds.emplace_back(of, state);
  std::vector<std::unique_ptr<SearchCase>> cases(kinds.size());
  std::vector<std::optional<InputError>> refused(kinds.size());
  in_parallel(kinds.size(), request.threads, [&](size_t i) {
    const auto& [of, state] = kinds[i];
    try {
      PlanRequest asked = for_model(request, *of);
      asked.optimizer_state = state;
      const int devices = choose_devices(asked, of->inputs().cluster, of->chain().units());
      cases[i] = std::make_unique<SearchCase>(of, std::move(asked), devices);
    } catch (const InputError& error) {
      refused[i] = error;
    }
  });
  std::erase(cases, nullptr);
  if (cases.empty()) throw *refused.front();  // no model has no states
  return cases;
}

SearchCase* search(const std::vector<std::unique_ptr<SearchCase>>& cases,
                   const PlanRequest& request, const LayoutSearch::Progress& progress) {
  const SplitSearch how = split_search(request, progress);
  std::vector<std::vector<SpaceBlock>> of_cases(cases.size());
  in_parallel(cases.size(), request.threads, [&](size_t i) {
    const bool repeats_one_replica =
        !request.optimizer_state && cases[i]->request.optimizer_state == OptimizerState::sharded;
    of_cases[i] = cases[i]->search.blocks(
        how, repeats_one_replica ? without_one_replica : LayoutSearch::Change());
  });
  std::vector<SpaceBlock> blocks;
  for (auto& each : of_cases) std::ranges::move(each, std::back_inserter(blocks));
  SearchResult all = search_splits(blocks, how);
  size_t begin = 0;
  SearchCase* best = nullptr;
  for (const auto& each : cases) {
    const size_t count = each->search.layouts().size();
    each->found = part_of(all, begin, count);
    if (each->found.best) best = each.get();
    begin += count;
  }
  return best;
}

}  // namespace penstock
