#include "planner/paths/walk.hpp"

#include <utility>

namespace penstock {

namespace {

constexpr size_t most_moves = 4;

}  // namespace

Walk::Walk(Judge judge, int units, std::vector<int> begins, uint32_t seed)
    : judge_(std::move(judge)),
      units_(units),
      begins_(std::move(begins)),
      split_s_(judge_.split_s(begins_)),
      random_(seed) {}

std::vector<int> Walk::moved() {
  const size_t stages = begins_.size();
  std::vector<int> sizes(stages), next(stages, 0);
  for (size_t stage = 0; stage < stages; ++stage)
    sizes[stage] = (stage + 1 < stages ? begins_[stage + 1] : units_) - begins_[stage];
  for (size_t moves = 1 + random_() % most_moves; moves > 0; --moves) {
    const size_t from = random_() % stages, to = random_() % stages;
    if (sizes[from] == 1) continue;
    --sizes[from];
    ++sizes[to];
  }
  for (size_t stage = 1; stage < stages; ++stage) next[stage] = next[stage - 1] + sizes[stage - 1];
  return next;
}

void Walk::go_on(int tries) {
  for (; tries > 0; --tries) {
    std::vector<int> next = moved();
    ++effort_;
    if (next == begins_) continue;
    effort_ += judge_.effort;
    const double next_s = judge_.split_s(next);
    if (next_s > split_s_) continue;
    split_s_ = next_s;
    begins_ = std::move(next);
  }
}

}  // namespace penstock
