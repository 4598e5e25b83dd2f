#include "planner/searched.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace penstock {

namespace {

/// A plan on fewer ranks is named where it is slower by no more than this.
constexpr double worth_naming = 0.05;

/// Tells layouts apart, but for the order of their devices.
auto key(const Searched& one) {
  return std::tuple(one.schedule, one.branches, one.ranks, one.stages_per_rank, one.data_parallel,
                    one.microbatches, one.tensor_parallel, one.optimizer_state);
}

constexpr auto of_space = [](const Contender& one) { return one.split.space; };

}  // namespace

Searched searched_row(const SearchCase& of, const LayoutSearch& search, size_t number,
                      const SearchResult::Space& space) {
  const PipelineLayout layout = search.layouts()[number];
  return {.schedule = std::string(layout.name()),
          .branches = layout.branches,
          .ranks = layout.ranks,
          .stages_per_rank = layout.stages_per_rank,
          .tensor_parallel = of.model->parts(),
          .optimizer_state = layout.data_parallel == 1
                                 ? OptimizerState::replicated  // nothing to share it out to
                                 : of.request.optimizer_state.value_or(OptimizerState::replicated),
          .data_parallel = layout.data_parallel,
          .microbatches = layout.microbatches,
          .microbatch = layout.measured->microbatch,
          .splits = space.splits,
          .simulated = space.simulated,
          .best_s = space.best ? space.best->outcome.step_s : 0,
          .lower_bound_s = space.bound_s,
          .min_memory_bytes = space.bytes,
          .max_memory_bytes = search.limit(layout).max_bytes};
}

bool same_layout(const Searched& one, const Searched& other) { return key(one) == key(other); }

std::vector<Searched> searched_rows(const std::vector<std::unique_ptr<SearchCase>>& cases,
                                    const SearchCase& best, const std::vector<Contender>& finalists,
                                    size_t chosen) {
  std::vector<Searched> rows;
  for (const auto& each : cases) {
    for (const auto& [space, seen] : each->found.spaces) {
      if (seen.splits == 0) continue;
      rows.push_back(searched_row(*each, each->search, space, seen));
      if (each.get() != &best) continue;
      rows.back().chosen = space == chosen;
      const auto judged = std::ranges::find(finalists, space, of_space);
      if (judged != finalists.end()) rows.back().expected_s = judged->expected_s();
    }
  }
  std::ranges::stable_sort(rows, {}, [](const Searched& one) {
    return std::tuple(!one.chosen, one.best_s == 0,
                      one.best_s == 0 ? one.lower_bound_s : one.best_s);
  });
  std::set<decltype(key(rows.front()))> listed{
      key(*std::ranges::find(rows, true, &Searched::chosen))};
  std::erase_if(
      rows, [&](const Searched& one) { return !one.chosen && !listed.insert(key(one)).second; });
  return rows;
}

std::optional<Searched> on_fewer_ranks(const std::vector<Searched>& rows, int64_t devices,
                                       double step_s) {
  for (const Searched& one : rows) {
    if (one.best_s == 0 || one.best_s > step_s * (1 + worth_naming)) break;
    if (one.ranks * one.data_parallel * one.tensor_parallel < devices) return one;
  }
  return std::nullopt;
}

}  // namespace penstock
