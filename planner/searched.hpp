// The table of layouts that a search came to.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/contender.hpp"
#include "planner/plan.hpp"
#include "planner/search_case.hpp"

namespace penstock {

/// `search`: of the case, or another of its plans; `space`: the layout's result.
Searched searched_row(const SearchCase& of, const LayoutSearch& search, size_t layout,
                      const SearchResult::Space& space);

/// But for the order of their devices.
bool same_layout(const Searched& one, const Searched& other);

/// The chosen layout, the others by their step on mean times, then those where nothing fits by
/// their bound. `finalists` and `chosen` are of `best`.
std::vector<Searched> searched_rows(const std::vector<std::unique_ptr<SearchCase>>& cases,
                                    const SearchCase& best, const std::vector<Contender>& finalists,
                                    size_t chosen);

/// The fastest on fewer devices, if it is no more than a little slower than the plan.
std::optional<Searched> on_fewer_ranks(const std::vector<Searched>& rows, int64_t devices,
                                       double step_s);

}  // namespace penstock
