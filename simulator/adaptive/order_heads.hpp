// When actions can begin at the earliest, in whatever order ranks run theirs.
#pragma once

#include <vector>

#include "simulator/adaptive/stage_links.hpp"

namespace penstock {

/// The F, or the I, of a stage: one for each microbatch.
struct ActionRow {
  int rank = 0;
  double seconds = 0;  // of each
  double more_s = 0;   // that one of them, whichever, takes in addition
  double own_s = 0;    // of each: another action of its rank before it, which waits for nothing
  std::vector<StageLink> before;  // rows whose action of the same microbatch it waits for
};

/// By row and by number, in the order in which a row's actions begin.
struct OrderHeads {
  std::vector<std::vector<double>> heads_s;
  std::vector<std::vector<double>> bare_s;  // without own_s of the action itself
};

/// A row's k-th action follows the k-th of each row before it, whatever microbatches these are of,
/// and hence the first k of all rows that come before. Those of its own rank are done one after the
/// other. Rows come after all that they wait for.
OrderHeads order_heads(const std::vector<ActionRow>& rows, int ranks, int microbatches);

}  // namespace penstock
