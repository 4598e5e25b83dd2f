#include "planner/bounds/recompute_bound.hpp"

#include <algorithm>

namespace penstock {

RecomputeBound::RecomputeBound(std::vector<Unit> units) {
  std::erase_if(units, [](const Unit& unit) { return unit.bytes <= 0; });
  std::ranges::stable_sort(units, [](const Unit& a, const Unit& b) {
    return a.forward_s * b.bytes < b.forward_s * a.bytes;
  });
  for (const Unit& unit : units) {
    sums_.push_back({sums_.back().forward_s + unit.forward_s, sums_.back().bytes + unit.bytes});
  }
}

double RecomputeBound::seconds(double bytes) const {
  if (bytes <= 0) return 0;
  const auto enough = std::ranges::lower_bound(sums_, bytes, {}, &Unit::bytes);
  if (enough == sums_.end()) return sums_.back().forward_s;
  const Unit& less = *std::prev(enough);
  const double part = (bytes - less.bytes) / (enough->bytes - less.bytes);
  return less.forward_s + part * (enough->forward_s - less.forward_s);
}

}  // namespace penstock
