#include "planner/splits/chain_space.hpp"

#include <algorithm>

namespace penstock {

SplitSpace::Prefix ChainSpace::extend(const Prefix& known, int begin, int end, int left) const {
  Prefix next;
  next.path = time_.extend(known.path, begin, end, left);
  next.bytes = std::max(known.bytes, memory_.stage(begin, end, left));
  return next;
}

int64_t ChainSpace::min_bytes(const Prefix& known, int begin, int left) const {
  if (left == 0) return std::max(known.bytes, least_.bytes);
  return std::max({known.bytes, memory_.suffix(begin, left), least_.bytes});
}

}  // namespace penstock
