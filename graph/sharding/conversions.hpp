// From one layout to another: what the ranks of a tensor group do to a value and to its gradient.
#pragma once

#include <string_view>

#include "graph/sharding/layout.hpp"

namespace penstock::sharding {

enum class Step {
  keep,            // nothing
  slice,           // each rank takes its part of what it has whole
  pad,             // each rank puts its part among zeros
  first_only,      // part 0 keeps the value, the others take zeros
  all_reduce,      // the sum, on each rank
  reduce_scatter,  // of the sum each rank's part
  all_gather,      // the parts of all ranks, on each
  all_to_all,      // parts of another split
};
std::string_view name(Step step);  // `all_reduce`

struct Conversion {
  Layout from, to;
  Step forward;   // of the value, held as `from` before and as `to` after it
  Step backward;  // of the gradient, held as to.gradient() before and as from.gradient() after it
};
/// Does it leave less of the value, or end a sum? It is then done where the value is made.
bool reduces(Step forward);
/// There is one from each layout to each.
Conversion conversion(const Layout& from, const Layout& to);

/// Bytes that each rank sends for a tensor of `bytes` as a whole, over a ring: all-reduce
/// 2(parts-1) of its pieces, all-gather and reduce-scatter parts-1, all-to-all parts-1 pieces of
/// its own part; none for the others. Rounded up.
int64_t bytes_sent(Step step, int64_t bytes, int parts);

}  // namespace penstock::sharding
