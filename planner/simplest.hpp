// The simplest of the plans that a prediction cannot tell from the fastest.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/layouts/layout_search.hpp"

namespace penstock {

/// The properties that make a plan less simple, the weightiest first.
struct Complexity {
  int64_t devices = 1;
  int stages = 1;
  int schedule = 0;         // 0: whole backwards; 1: in two parts; 2: other tools have no name for
                            // it, or for the stages
  int divided_modules = 0;  // the most that a stage of it begins inside of (module_cuts.hpp)

  auto operator<=>(const Complexity&) const = default;
  /// In the same order: of fewer than a million stages, and modules 255 deep at most.
  int64_t number() const;
};

/// How complex a layout is, whatever modules its stages divide.
Complexity complexity_of(const PipelineLayout& layout);

/// Looks for simpler plans along the chain, level by level: cut between the model's children, then
/// inside these as well, and so on to all of its units.
class SimplestSearch {
 public:
  /// `all`: the search that found the fastest; it and the others outlive this.
  SimplestSearch(const PlanningInputs& inputs, const ModelChain& chain, const PlanRequest& request,
                 int devices, const LayoutSearch& all);

  /// The complexity of a plan with that slicing.
  Complexity complexity(const PipelineLayout& layout, const Slicing& slicing) const;

  struct Found {
    const LayoutSearch* search;
    FoundSplit split;
    SearchResult::Space space;
  };
  /// The simplest plan of at most so many weighted seconds, then the fastest of these; absent where
  /// none is simpler than `than`.
  std::optional<Found> run(const Complexity& than, double max_s,
                           const LayoutSearch::Progress& progress) const {
    return run(false, than, max_s, progress);
  }
  /// The same, whatever modules it divides: of the complexities of layouts alone.
  std::optional<Found> run_dividing(const Complexity& than, double max_s,
                                    const LayoutSearch::Progress& progress) const {
    return run(true, than, max_s, progress);
  }

 private:
  struct Level {
    int divided_modules;
    std::unique_ptr<ModelChain> chain;
    std::unique_ptr<LayoutSearch> own;
    const LayoutSearch* search;
  };

  std::optional<Found> run(bool dividing, const Complexity& than, double max_s,
                           const LayoutSearch::Progress& progress) const;

  const PlanningInputs& inputs_;
  const PlanRequest request_;
  std::vector<Level> levels_;
};

}  // namespace penstock
