#include "graph/sharding/view_rule.hpp"

#include <stdexcept>

namespace penstock::sharding {

std::optional<Layout> view_split(const Layout& split, const Shape& from, const Shape& to,
                                 int parts) {
  if (!split.is_split() || !fits(split, from, parts))
    throw std::invalid_argument(split.str() + " does not split what is viewed");
  int64_t turns = split.blocks();
  for (int d = 0; d < split.dimension(); ++d) turns *= from[d];
  int64_t before = 1;
  for (int e = 0; e < static_cast<int>(to.size()); before *= to[e++]) {
    if (turns % before != 0) return std::nullopt;
    const Layout candidate = Layout::split(e, turns / before);
    if (fits(candidate, to, parts)) return candidate;
  }
  return std::nullopt;
}

}  // namespace penstock::sharding
