// Placement of ranks on the cores of a machine: a pure function over a description of it.
#pragma once

#include <set>
#include <vector>

namespace penstock {

/// A logical core: two of one physical core share its `core`, those of one memory its `node`.
struct LogicalCore {
  int id = 0, core = 0, node = 0;
};

/// Cores that a local rank may use.
struct CoreClaim {
  std::set<int> allowed;  // ids, as its launcher left them
};

/// The cores of local rank `rank`, one claim per local rank. Ranks that may use the same cores
/// share them: equally many each, consecutive ranks side by side, logical cores of one physical
/// core together, and no rank on two nodes as long as whole shares fit into nodes; where ranks
/// outnumber cores they take turns. A rank that its launcher has given cores of its own keeps them
/// all. Empty where nothing is known.
std::vector<int> cores_of_rank(const std::vector<LogicalCore>& machine,
                               const std::vector<CoreClaim>& claims, int rank);

}  // namespace penstock
