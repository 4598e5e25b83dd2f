// Searches over plans that differ in more than their layouts: in tensor groups, and in how replicas
// hold the optimizer's state.
#pragma once

#include <memory>
#include <vector>

#include "planner/layouts/layout_search.hpp"
#include "planner/rank_model.hpp"

namespace penstock {

/// Plans that are alike in both, and what a search found of them. It stays where it is.
struct SearchCase {
  /// Throws InputError (layout.hpp).
  SearchCase(std::shared_ptr<const RankModel> of, PlanRequest asked, int all_devices);
  SearchCase(const SearchCase&) = delete;
  SearchCase& operator=(const SearchCase&) = delete;

  const PlanningInputs& inputs() const { return model->inputs(); }
  const ModelChain& chain() const { return model->chain(); }

  const std::shared_ptr<const RankModel> model;
  const PlanRequest request;  // for such plans
  const int devices;          // for a tensor group each
  const LayoutSearch search;
  SearchResult found;  // `best`: where the best of all is one of them
};

/// All that the request, which is `completed`, allows of these models; in the order that decides
/// ties. Throws InputError where there is none.
std::vector<std::unique_ptr<SearchCase>> search_cases(const RankModels& models,
                                                      const Profile& profile, const Graph& model,
                                                      const PlanRequest& request);

/// Searches all of them at once, with the request's effort, and fills in what was found. Returns
/// the one with the best plan, or null.
SearchCase* search(const std::vector<std::unique_ptr<SearchCase>>& cases,
                   const PlanRequest& request, const LayoutSearch::Progress& progress);

}  // namespace penstock
