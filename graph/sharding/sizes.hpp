// Sizes as a rank has them: of what it holds, and among an operator's arguments.
#pragma once

#include <vector>

#include "graph/graph.hpp"
#include "graph/sharding/signatures.hpp"

namespace penstock::sharding {

/// The sizes of a part; expressions in the batch stay such.
std::vector<Expression> local_sizes(const Layout& layout, std::vector<Expression> sizes, int parts);

/// Puts the sizes of the operator's results, which `local` has as they are of a part, into its
/// arguments: of views, expansions, and what cuts into pieces; and the groups that a part has.
void set_sizes(const Graph& local, Operator& op, const Signature& signature, int parts);

}  // namespace penstock::sharding
