// The message for a model that does not fit: by how much, and what would make it fit.
#pragma once

#include "base/error.hpp"
#include "planner/layouts/layout_search.hpp"
#include "planner/search_case.hpp"

namespace penstock {

struct Misfit {
  const SearchCase& of;  // of all that was searched the one with most memory for the model
  bool proven;           // that nothing fits: the search was complete
  const Profile& profile;
  const Graph& model;
  const Cluster* cluster;
  const PlanRequest& request;  // for all that was searched
  const LayoutSearch::Progress& progress;
};

/// Searches for the plan that holds least, for one that would fit with the optimizer's state shared
/// out, with tensor groups that the profile has costs of, with another schedule, number of
/// microbatches or replicas, and for more ranks; names the memory that suffices and what it found.
InputError does_not_fit(const Misfit& misfit);

}  // namespace penstock
