#include "graph/cuts/segments.hpp"

#include <algorithm>

namespace penstock {

std::vector<Segment> whole_stage(const Slicing& slicing, int stage) {
  const auto& of = slicing.stage_of_operator;
  const auto first = std::ranges::find(of, stage);
  if (first == of.end()) return {};
  const auto last = std::find(of.rbegin(), of.rend(), stage);
  return {{static_cast<OperatorId>(first - of.begin()), static_cast<OperatorId>(of.rend() - last)}};
}

std::vector<std::vector<int>> units_of_stages(const Slicing& slicing,
                                              const std::vector<Unit>& units) {
  std::vector<std::vector<int>> of_stages(slicing.stages.size());
  for (size_t unit = 0; unit < units.size(); ++unit) {
    for (OperatorId op = units[unit].begin; op < units[unit].end; ++op) {
      const int stage = slicing.stage_of_operator[static_cast<size_t>(op)];
      std::vector<int>& own = of_stages[static_cast<size_t>(stage)];
      if (own.empty() || own.back() != static_cast<int>(unit))
        own.push_back(static_cast<int>(unit));
    }
  }
  return of_stages;
}

}  // namespace penstock
