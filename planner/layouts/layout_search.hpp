// The search over all layouts that a request allows.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "planner/layouts/layout_space.hpp"
#include "planner/splits/search.hpp"

namespace penstock {

class LayoutSearch {
 public:
  using Progress = std::function<void(const SearchState&)>;

  /// All of it outlives the search. Throws InputError (layout.hpp).
  LayoutSearch(const PlanningInputs& inputs, const ModelChain& chain, const PlanRequest& request,
               int devices);

  SearchResult run(const Progress& progress = {}) const;
  /// In the order of the layouts, each with its bounds.
  std::vector<SearchSpace> spaces() const;
  /// Puts them into as many places.
  void list_spaces(std::span<SearchSpace> into) const;

  const std::vector<PipelineLayout>& layouts() const { return layouts_; }
  /// Steps of a layout compare as weight x seconds.
  double weight(const PipelineLayout& layout) const;
  MemoryLimit limit(size_t layout) const;
  /// Null for a shape that its schedule does not run.
  std::unique_ptr<LayoutSpace> open(size_t layout) const;
  /// Throws InputError, the first layout's, where no schedule runs any of the shapes.
  void require_some() const;

 private:
  const PlanningInputs& inputs_;
  const PlanRequest& request_;
  const std::shared_ptr<const Branches> branches_;
  const std::vector<PipelineLayout> layouts_;
  LayoutContext context_;
};

/// How splits are searched for that request.
SplitSearch split_search(const PlanRequest& request, const LayoutSearch::Progress& progress);

}  // namespace penstock
