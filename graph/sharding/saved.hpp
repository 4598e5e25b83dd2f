// Values that are saved for the backward, by the operator table.
#pragma once

#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/graph.hpp"

namespace penstock::sharding {

struct Saved {
  bool is_saved = false;  // its memory is, by some operator that reads it or a view of it
  bool is_view = false;   // its memory is another value's
  auto operator<=>(const Saved&) const = default;
};

/// By value. Statistics, masks and log-sum-exps that are no values are left out.
std::vector<Saved> saved_values(const Graph& graph, const std::vector<bool>& has_gradient);

/// When the backward gathers a value again: in I, in W, and in B once where in either.
struct GatheredIn {
  bool input = false, weight = false;
};

/// By operator of a local graph, of those that gather again (collectives.hpp). A product with a
/// parameter needs its other factor in W alone.
std::vector<GatheredIn> gathered_in(const Graph& local, const Analysis& analysis);

}  // namespace penstock::sharding
