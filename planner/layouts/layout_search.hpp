// The search over all layouts that a request allows.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "planner/layouts/layout_list.hpp"
#include "planner/layouts/layout_space.hpp"
#include "planner/splits/search.hpp"

namespace penstock {

class QuickBounds;

class LayoutSearch {
 public:
  using Progress = std::function<void(const SearchState&)>;

  /// All of it outlives the search. Throws InputError (layout.hpp).
  LayoutSearch(const PlanningInputs& inputs, const ModelChain& chain, const PlanRequest& request,
               int devices);

  SearchResult run(const Progress& progress = {}) const;
  /// May change the space of a layout.
  using Change = std::function<void(const PipelineLayout&, SearchSpace&)>;
  /// Spaces in the order of the layouts, each with its bounds. This outlives them.
  std::vector<SpaceBlock> blocks(const SplitSearch& search, const Change& change = {}) const;

  const LayoutList& layouts() const { return layouts_; }
  /// Steps of a layout compare as weight x seconds.
  double weight(const PipelineLayout& layout) const;
  MemoryLimit limit(const PipelineLayout& layout) const;
  /// Null for a shape that its schedule does not run.
  std::unique_ptr<LayoutSpace> open(const PipelineLayout& layout) const;
  /// Throws InputError, the first layout's, where no schedule runs any of the shapes.
  void require_some() const;

 private:
  std::vector<SearchSpace> spaces(const LayoutList::Block& block, QuickBounds& bounds,
                                  const Change& change) const;

  const PlanningInputs& inputs_;
  const PlanRequest& request_;
  const std::shared_ptr<const Branches> branches_;
  const LayoutList layouts_;
  LayoutContext context_;
};

/// How splits are searched for that request.
SplitSearch split_search(const PlanRequest& request, const LayoutSearch::Progress& progress);

}  // namespace penstock
