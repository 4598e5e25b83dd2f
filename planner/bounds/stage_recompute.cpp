#include "planner/bounds/stage_recompute.hpp"

#include <algorithm>

namespace penstock {

StageRecompute::StageRecompute(const std::vector<LayerChoices>& units,
                               std::shared_ptr<const StageTable> bytes, int64_t limit_bytes,
                               double first)
    : bytes_(std::move(bytes)), limit_bytes_(limit_bytes), first_(first) {
  for (const LayerChoices& unit : units) {
    const auto kind = std::ranges::find(kinds_, unit);
    kind_of_unit_.push_back(static_cast<int>(kind - kinds_.begin()));
    if (kind == kinds_.end()) kinds_.push_back(unit);
  }
}

double StageRecompute::seconds(int begin, int end, int held) const {
  const int64_t excess = bytes_->at(begin, end).kept(held) - limit_bytes_;
  if (excess <= 0) return 0;
  const size_t stride = kind_of_unit_.size() + 1;
  std::vector<double>& known = found_[held];
  if (known.empty()) known.assign(stride * stride, -1);
  double& seconds = known[static_cast<size_t>(begin) * stride + static_cast<size_t>(end)];
  if (seconds < 0) seconds = least(begin, end, (excess + held - 1) / held);
  return seconds;
}

double StageRecompute::least(int begin, int end, int64_t bytes) const {
  std::vector<int> counts(kinds_.size(), 0);
  for (int unit = begin; unit < end; ++unit)
    ++counts[static_cast<size_t>(kind_of_unit_[static_cast<size_t>(unit)])];
  const auto [known, fresh] = least_.try_emplace({counts, bytes}, 0);
  if (!fresh) return known->second;
  std::vector<LayerChoices> units;
  for (size_t kind = 0; kind < kinds_.size(); ++kind)
    units.insert(units.end(), static_cast<size_t>(counts[kind]), kinds_[kind]);
  return known->second = choose_layers(units, bytes).bound_s;
}

}  // namespace penstock
