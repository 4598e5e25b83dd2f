#include "planner/bounds/stage_recompute.hpp"

#include <algorithm>
#include <limits>

namespace penstock {

namespace {

/// In the trees of all knapsacks: a fraction of a second.
constexpr int all_nodes = 1'000'000;

}  // namespace

StageRecompute::StageRecompute(const std::vector<LayerChoices>& units,
                               std::shared_ptr<const StageTable> bytes, int64_t limit_bytes,
                               double first)
    : most_{0},
      longest_s_{0},
      bytes_(std::move(bytes)),
      limit_bytes_(limit_bytes),
      first_(first),
      nodes_left_(all_nodes) {
  for (const LayerChoices& unit : units) {
    const auto kind = std::ranges::find(kinds_, unit);
    kind_of_unit_.push_back(static_cast<int>(kind - kinds_.begin()));
    if (kind == kinds_.end()) kinds_.push_back(unit);
    LayerChoice most;
    for (const LayerChoice& choice : unit) {
      most.bytes = std::max(most.bytes, choice.bytes);
      most.seconds = std::max(most.seconds, choice.seconds);
    }
    most_.push_back(most_.back() + most.bytes);
    longest_s_.push_back(longest_s_.back() + most.seconds);
    for (const LayerChoice& step : hull(unit))
      steps_.push_back({static_cast<int>(kind_of_unit_.size()) - 1, step});
  }
  std::ranges::stable_sort(steps_, cheaper, &Step::more);
}

double StageRecompute::seconds(int begin, int end, int held) const {
  const StageBytes& stage = bytes_->at(begin, end);
  const int64_t excess = stage.kept(held) + stage.turn - limit_bytes_;
  if (excess <= 0) return 0;
  const size_t stride = kind_of_unit_.size() + 1;
  std::vector<double>& known = found_[held];
  if (known.empty()) known.assign(stride * stride, -1);
  double& seconds = known[static_cast<size_t>(begin) * stride + static_cast<size_t>(end)];
  if (seconds < 0) seconds = std::min(apart(begin, end, held, excess), longest_s(begin, end));
  return seconds;
}

/// The last unit recomputes, and is there again when the backward begins; or it does not.
double StageRecompute::apart(int begin, int end, int held, int64_t excess) const {
  const auto each = [held](int64_t bytes) { return (bytes + held - 1) / held; };
  const int64_t again = bytes_->at(begin, end).again;
  if (again == 0) return least(begin, end, each(excess));
  double least_s = least(begin, end - 1, each(excess));
  const auto last = static_cast<size_t>(kind_of_unit_[static_cast<size_t>(end) - 1]);
  for (const LayerChoice& choice : kinds_[last])
    least_s = std::min(least_s, choice.seconds + least(begin, end - 1,
                                                       each(excess + again - held * choice.bytes)));
  return least_s;
}

/// Parts of steps are allowed.
double StageRecompute::relaxed(int begin, int end, int64_t bytes) const {
  double sum_s = 0;
  for (const auto& [unit, more] : steps_) {
    if (unit < begin || unit >= end) continue;
    sum_s +=
        std::min(1.0, static_cast<double>(bytes) / static_cast<double>(more.bytes)) * more.seconds;
    bytes -= more.bytes;
    if (bytes <= 0) break;
  }
  return sum_s;
}

double StageRecompute::least(int begin, int end, int64_t bytes) const {
  if (bytes <= 0) return 0;
  if (most_[static_cast<size_t>(end)] - most_[static_cast<size_t>(begin)] < bytes)
    return std::numeric_limits<double>::infinity();
  if (nodes_left_ == 0) return relaxed(begin, end, bytes);
  std::vector<int> counts(kinds_.size(), 0);
  for (int unit = begin; unit < end; ++unit)
    ++counts[static_cast<size_t>(kind_of_unit_[static_cast<size_t>(unit)])];
  const auto [known, fresh] = least_.try_emplace({counts, bytes}, 0);
  if (!fresh) return known->second;
  std::vector<LayerChoices> units;
  for (size_t kind = 0; kind < kinds_.size(); ++kind)
    units.insert(units.end(), static_cast<size_t>(counts[kind]), kinds_[kind]);
  const ChosenLayers chosen = choose_layers(units, bytes, std::min(nodes_left_, most_choice_nodes));
  nodes_left_ = std::max(0, nodes_left_ - chosen.nodes);
  return known->second = chosen.bound_s;
}

}  // namespace penstock
