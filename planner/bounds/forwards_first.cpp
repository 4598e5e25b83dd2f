#include "planner/bounds/forwards_first.hpp"

#include <algorithm>
#include <limits>

namespace penstock {

ForwardsFirst::ForwardsFirst(const ChainCosts& costs, int stages, int microbatches,
                             const Measure& measure)
    : units_(costs.units()),
      microbatches_(microbatches),
      propagation_s_(costs.propagation_s),
      cut_forward_s_(costs.cut_forward_s),
      cut_backward_s_(costs.cut_backward_s) {
  constexpr double never = std::numeric_limits<double>::infinity();
  suffix_.assign(index(0, stages + 1), {never, never, never, never});
  for (int left = 1; left <= stages; ++left)
    for (int begin = stages - left; begin + left <= units_; ++begin) tabulate(begin, left, measure);
}

/// A message takes its channel without its propagation.
ForwardsFirst::Pass ForwardsFirst::channel(double message_s) const {
  return {message_s, message_s, message_s - propagation_s_};
}

ForwardsFirst::Prefix ForwardsFirst::extend(const Prefix& known, const Stage& stage,
                                            int end) const {
  Prefix next = known;
  const auto pass = [&](const Pass& down, const Pass& up) {
    next.forwards = std::max(next.forwards + down.last, next.head + all(down));
    next.backwards = std::max(next.backwards + up.first, all(up) + next.tail);
    next.head += down.first;
    next.tail += up.last;
  };
  pass(stage.forward, stage.backward);
  if (end == units_) return next;
  const auto cut = static_cast<size_t>(end) - 1;
  pass(channel(cut_forward_s_[cut]), channel(cut_backward_s_[cut]));
  return next;
}

double ForwardsFirst::least(const Prefix& known, int begin, int left) const {
  if (left == 0) return known.forwards + known.backwards;
  const Suffix& rest = suffix_[index(begin, left)];
  return std::max(known.forwards + rest.last_forward, known.head + rest.forwards) +
         std::max(known.backwards + rest.first_backward, rest.backwards + known.tail);
}

void ForwardsFirst::tabulate(int begin, int left, const Measure& measure) {
  Suffix& least = suffix_[index(begin, left)];
  const auto take = [&](const Suffix& one) {
    least.last_forward = std::min(least.last_forward, one.last_forward);
    least.first_backward = std::min(least.first_backward, one.first_backward);
    least.forwards = std::min(least.forwards, one.forwards);
    least.backwards = std::min(least.backwards, one.backwards);
  };
  if (left == 1) {
    const auto [down, up] = measure(begin, units_, 1);
    return take({down.last, up.first, all(down), all(up)});
  }
  for (int end = begin + 1; end + left - 1 <= units_; ++end) {
    const Suffix& rest = suffix_[index(end, left - 1)];
    const auto [down, up] = measure(begin, end, left);
    const auto cut = static_cast<size_t>(end) - 1;
    const Pass there = channel(cut_forward_s_[cut]), back = channel(cut_backward_s_[cut]);
    take({down.last + there.last + rest.last_forward, up.first + back.first + rest.first_backward,
          std::max({all(down) + there.last + rest.last_forward,
                    down.first + all(there) + rest.last_forward,
                    down.first + there.first + rest.forwards}),
          std::max({rest.first_backward + back.first + all(up),
                    rest.first_backward + all(back) + up.last,
                    rest.backwards + back.last + up.last})});
  }
}

}  // namespace penstock
