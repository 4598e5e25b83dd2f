#include "planner/alternatives.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "planner/searched.hpp"
#include "simulator/explain/explain.hpp"

namespace penstock {

namespace {

using Shape = std::tuple<std::string_view, int, int, int64_t, bool>;

Shape shape(const PipelineLayout& layout) {
  return {layout.name(), layout.ranks, layout.stages_per_rank, layout.data_parallel,
          layout.branches};
}

/// With other layouts than the chosen, fastest first.
std::vector<size_t> by_step(const SearchResult& result, size_t chosen) {
  std::vector<size_t> order;
  for (const auto& [space, seen] : result.spaces)
    if (seen.best && space != chosen) order.push_back(space);
  std::ranges::stable_sort(
      order, {}, [&](size_t space) { return result.spaces.at(space).best->outcome.step_s; });
  return order;
}

Alternative alternative(const SearchCase& of, size_t space) {
  SearchResult::Space found = of.found.spaces.at(space);
  const auto opened = of.search.open(of.search.layouts()[space]);
  const LayoutSpace::Result run = opened->plan(*found.best, {});
  const auto& [slicing, costs, simulation] = run.evaluated;
  // A search leaves recompute where it is in splits far above the best; a plan does not.
  found.best->outcome.step_s = simulation.makespan_s;
  Alternative result{searched_row(of, of.search, space, found),
                     *std::ranges::max_element(simulation.peak_memory_bytes),
                     {}};
  if (simulation.actions <= max_explained_actions)
    result.time = time_parts(run.plan, slicing, costs, simulation, opened->network());
  return result;
}

}  // namespace

std::vector<Alternative> alternatives(const SearchCase& of, size_t chosen, size_t count) {
  const LayoutList& layouts = of.search.layouts();
  std::set<Shape> seen{shape(layouts[chosen])};
  std::vector<Alternative> all;
  for (const size_t space : by_step(of.found, chosen)) {
    if (all.size() == count) break;
    if (seen.insert(shape(layouts[space])).second) all.push_back(alternative(of, space));
  }
  return all;
}

}  // namespace penstock
