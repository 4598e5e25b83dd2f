// FLOPs and bytes of one operator, by closed formulas over its shapes.
#pragma once

#include "graph/graph.hpp"

namespace penstock {

/// Multiply-adds count as two. Matrix products, convolutions, attention and embedding bags by
/// formula; other operators one per output element; views and assertions none.
double forward_flops(const Graph& graph, const Operator& op, int64_t batch);

/// Bytes read plus bytes written in the forward, each tensor once; a view moves none, a lookup
/// reads of its table as much as it returns.
int64_t forward_bytes(const Graph& graph, const Operator& op, int64_t batch);

}  // namespace penstock
