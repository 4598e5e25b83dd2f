#include "graph/segments.hpp"

#include <algorithm>
#include <limits>

namespace penstock {

std::vector<Segment> whole_stage(const Slicing& slicing, int stage) {
  const auto& of = slicing.stage_of_operator;
  const auto first = std::ranges::find(of, stage);
  if (first == of.end()) return {};
  const auto last = std::find(of.rbegin(), of.rend(), stage);
  return {{static_cast<OperatorId>(first - of.begin()), static_cast<OperatorId>(of.rend() - last)}};
}

std::vector<Segment> first_units(const Slicing& slicing, int stage,
                                 const std::vector<OperatorId>& unit_begins, int count) {
  const auto& of = slicing.stage_of_operator;
  std::vector<Segment> segments;
  for (size_t unit = 0; unit < unit_begins.size(); ++unit) {
    if (static_cast<int>(segments.size()) == count) break;
    const OperatorId begin = unit_begins[unit];
    const OperatorId end =
        unit + 1 < unit_begins.size() ? unit_begins[unit + 1] : static_cast<OperatorId>(of.size());
    if (std::find(of.begin() + begin, of.begin() + end, stage) == of.begin() + end) continue;
    segments.push_back({begin, end});
  }
  return segments;
}

int units_of_stage(const Slicing& slicing, int stage, const std::vector<OperatorId>& unit_begins) {
  return static_cast<int>(
      first_units(slicing, stage, unit_begins, std::numeric_limits<int>::max()).size());
}

}  // namespace penstock
