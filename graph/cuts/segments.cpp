#include "graph/cuts/segments.hpp"

#include <algorithm>
#include <utility>

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

std::vector<int> units_of_stages(const Slicing& slicing,
                                 const std::vector<OperatorId>& unit_begins) {
  std::vector<int> counts(slicing.stages.size(), 0);
  std::vector<size_t> seen_in(slicing.stages.size(), unit_begins.size());  // the last unit
  size_t unit = 0;
  for (size_t op = 0; op < slicing.stage_of_operator.size(); ++op) {
    while (unit + 1 < unit_begins.size() && unit_begins[unit + 1] <= static_cast<OperatorId>(op))
      ++unit;
    const auto stage = static_cast<size_t>(slicing.stage_of_operator[op]);
    if (std::exchange(seen_in[stage], unit) != unit) ++counts[stage];
  }
  return counts;
}

}  // namespace penstock
