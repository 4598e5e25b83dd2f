#include "planner/bounds/growing_choices.hpp"

#include <algorithm>
#include <utility>

namespace penstock {

GrowingChoices::GrowingChoices(std::vector<LayerChoices> units)
    : units_(std::move(units)), choices_(units_.size(), -1), before_(choices_) {}

/// What each choice of a unit takes and frees beyond the one that it has.
LayerChoices GrowingChoices::beyond(size_t unit) const {
  LayerChoices beyond = units_[unit];
  const int before = before_[unit];
  const LayerChoice has = before < 0 ? LayerChoice{} : beyond[static_cast<size_t>(before)];
  for (LayerChoice& choice : beyond)
    choice = {.seconds = std::max(0.0, choice.seconds - has.seconds),
              .bytes = std::max<int64_t>(0, choice.bytes - has.bytes) * held_[unit]};
  return beyond;
}

bool GrowingChoices::free_more(const std::vector<int>& held, int64_t bytes, KnownChoices& known) {
  if (held != held_) {
    held_ = held;
    before_ = choices_;
    freed_ = 0;
  }
  std::vector<LayerChoices> more;
  int64_t most = 0;
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    more.push_back(beyond(unit));
    if (more.back().empty()) continue;
    most += std::ranges::max(more.back(), {}, &LayerChoice::bytes).bytes;
  }
  if (freed_ >= most) return false;
  const ChosenLayers& chosen = known.of(std::move(more), std::min(most, freed_ + bytes));
  for (size_t unit = 0; unit < units_.size(); ++unit)
    choices_[unit] = chosen.choices[unit] < 0 ? before_[unit] : chosen.choices[unit];
  freed_ = chosen.bytes;
  return true;
}

}  // namespace penstock
