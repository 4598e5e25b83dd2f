// Values that are saved for the backward, by the operator table. Internal to complete.
#pragma once

#include <vector>

#include "graph/graph.hpp"

namespace penstock::sharding {

struct Saved {
  bool is_saved = false;  // its memory is, by some operator that reads it or a view of it
  bool is_view = false;   // its memory is another value's
  auto operator<=>(const Saved&) const = default;
};

/// By value. Statistics, masks and log-sum-exps that are no values are left out.
std::vector<Saved> saved_values(const Graph& graph, const std::vector<bool>& has_gradient);

}  // namespace penstock::sharding
