#include "planner/simplest.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "graph/cuts/module_cuts.hpp"

namespace penstock {

namespace {

/// Its effort is this part of that of the search for the fastest plan.
constexpr int64_t part_of_effort = 4;

PlanRequest along_the_chain(PlanRequest request) {
  request.contiguous = true;
  request.effort /= part_of_effort;
  return request;
}

/// The levels at which the chain can be cut.
std::set<int> levels_of(const Graph& model, const ModelChain& chain) {
  std::set<int> levels;
  for (const OperatorId begin : chain.begins()) {
    if (begin > 0) levels.insert(divided_modules(model, begin));
  }
  return levels;
}

}  // namespace

int64_t Complexity::number() const {
  constexpr int64_t stage_counts = int64_t{1} << 20, kinds = 3, levels = 256;
  return ((devices * stage_counts + stages) * kinds + schedule) * levels + divided_modules;
}

Complexity complexity_of(const PipelineLayout& layout) {
  const bool unnamed = !layout.schedule || layout.branches;
  const int schedule = unnamed ? 2 : layout.schedule->split_backward ? 1 : 0;
  return {layout.ranks * layout.data_parallel, layout.stages(), schedule, 0};
}

SimplestSearch::SimplestSearch(const PlanningInputs& inputs, const ModelChain& chain,
                               const PlanRequest& request, int devices, const LayoutSearch& all)
    : inputs_(inputs), request_(along_the_chain(request)) {
  const std::set<int> levels = levels_of(inputs.model, chain);
  for (const int level : levels) {
    if (level == *levels.rbegin()) break;  // all units
    std::vector<OperatorId> begins = chain.begins();
    std::erase_if(begins, [&](OperatorId begin) {
      return begin > 0 && divided_modules(inputs.model, begin) > level;
    });
    auto coarse = std::make_unique<ModelChain>(inputs.model, inputs.analysis, std::move(begins));
    auto own = std::make_unique<LayoutSearch>(inputs, *coarse, request_, devices);
    const LayoutSearch* search = own.get();
    levels_.push_back({level, std::move(coarse), std::move(own), search});
  }
  levels_.push_back({levels.empty() ? 0 : *levels.rbegin(), nullptr, nullptr, &all});
}

Complexity SimplestSearch::complexity(const PipelineLayout& layout, const Slicing& slicing) const {
  int divided = 0;
  for (size_t op = 1; op < slicing.stage_of_operator.size(); ++op) {
    if (slicing.stage_of_operator[op] == slicing.stage_of_operator[op - 1]) continue;
    divided = std::max(divided, divided_modules(inputs_.model, static_cast<OperatorId>(op)));
  }
  Complexity complexity = complexity_of(layout);
  complexity.divided_modules = divided;
  return complexity;
}

std::optional<SimplestSearch::Found> SimplestSearch::run(
    bool dividing, const Complexity& than, double max_s,
    const LayoutSearch::Progress& progress) const {
  const SplitSearch search{.max_s = max_s,
                           .effort = request_.effort,
                           .threads = request_.threads,
                           .progress = progress,
                           .stop = request_.stop};
  struct Numbered {
    const LayoutSearch* search;
    size_t begin;  // the number of its first layout
  };
  std::vector<SpaceBlock> blocks;
  std::vector<Numbered> levels;
  size_t begin = 0;
  for (const Level& level : levels_) {
    if (dividing && &level != &levels_.back()) continue;
    const int divided = dividing ? 0 : level.divided_modules;
    const auto rank = [&than, divided](const PipelineLayout& layout, SearchSpace& space) {
      Complexity complexity = complexity_of(layout);
      complexity.divided_modules = divided;
      space.complexity = complexity.number();
      if (layout.branches || complexity >= than) space.memory_limit = nothing_fits;
    };
    std::ranges::move(level.search->blocks(search, rank), std::back_inserter(blocks));
    levels.push_back({level.search, begin});
    begin += level.search->layouts().size();
  }
  SearchResult result = search_splits(blocks, search);
  if (!result.best) return std::nullopt;
  const size_t space = result.best->space;
  const auto behind = std::ranges::upper_bound(levels, space, {}, &Numbered::begin);
  const Numbered& of = *std::prev(behind);
  result.best->space -= of.begin;
  return Found{of.search, std::move(*result.best), std::move(result.spaces.at(space))};
}

}  // namespace penstock
