#include "planner/bounds/work_sums.hpp"

#include <algorithm>

namespace penstock {

namespace {

using Values = std::vector<double>;

/// Sums of `values`, and of `more` beside them; either may be empty.
Values sums_of(const std::vector<WorkSums::Grown>& sets, const Values& values,
               const Values& more = {}) {
  const auto of = [](const Values& list, int unit) {
    return list.empty() ? 0.0 : list[static_cast<size_t>(unit)];
  };
  Values sums{0.0}, added{0.0};  // apart, as simulations add them
  for (const auto& [from, unit] : sets) {
    sums.push_back(sums[static_cast<size_t>(from)] + of(values, unit));
    added.push_back(added[static_cast<size_t>(from)] + of(more, unit));
  }
  for (size_t set = 0; set < sums.size(); ++set) sums[set] += added[set];
  return sums;
}

}  // namespace

std::vector<WorkSums::Grown> WorkSums::prefixes(int units) {
  std::vector<Grown> sets;
  sets.reserve(static_cast<size_t>(units));
  for (int unit = 0; unit < units; ++unit) sets.push_back({unit, unit});
  return sets;
}

WorkSums::WorkSums(const ChainCosts& costs, int microbatches, const std::vector<Grown>& sets)
    : microbatches_(microbatches),
      split_(!costs.weight_s.empty()),
      action_s_(costs.action_s),
      first_action_s_(costs.first_action_s),
      weight_action_s_(costs.weight_action_s),
      host_actions_s_(costs.host_actions_s),
      forward_(sums_of(sets, costs.forward_s)),
      input_(sums_of(sets, costs.backward_s)),
      weight_(sums_of(sets, costs.weight_s)),
      forward0_(sums_of(sets, costs.forward_s, costs.first_forward_s)),
      input0_(sums_of(sets, costs.backward_s, costs.first_backward_s)),
      optimizer_(sums_of(sets, costs.optimizer_s)),
      reduce_(sums_of(sets, costs.unit_reduce_s)),
      host_(sums_of(sets, costs.host_s)) {
  if (costs.whole_s.empty()) return;
  whole_ = sums_of(sets, costs.whole_s);
  parts_ = sums_of(sets, costs.parts_s);
}

double WorkSums::inputs(int begin, int end, int stages) const {
  const double each_s = difference(forward_, begin, end) + difference(input_, begin, end);
  const double first_s = difference(forward0_, begin, end) + difference(input0_, begin, end);
  const double action_s = 2 * microbatches_ * action_s_ + (split_ ? 3 : 2) * first_action_s_;
  return (microbatches_ - 1) * each_s + first_s + stages * action_s;
}

double WorkSums::forwards(int begin, int end) const {
  return (microbatches_ - 1) * difference(forward_, begin, end) +
         difference(forward0_, begin, end) + microbatches_ * action_s_ + first_action_s_;
}

double WorkSums::issued(int begin, int end, int stages) const {
  return microbatches_ * (difference(host_, begin, end) + stages * host_actions_s_);
}

double WorkSums::weights(int begin, int end) const {
  return microbatches_ * weight_once(begin, end);
}

double WorkSums::weights_alone(int begin, int end) const {
  return microbatches_ * (split_ ? difference(weight_, begin, end) + weight_action_s_ : 0.0);
}

double WorkSums::weight_once(int begin, int end) const {
  return split_ ? difference(weight_, begin, end) + weight_action_s_ + undecided(begin, end) : 0.0;
}

/// Seconds that the backwards of one stage take longer than if each unit had its own way.
double WorkSums::undecided(int begin, int end) const {
  if (whole_.empty()) return 0;
  const double alone_s = difference(input_, begin, end) + difference(weight_, begin, end);
  const double stage_s = std::min(difference(whole_, begin, end), difference(parts_, begin, end));
  return std::max(0.0, stage_s - alone_s);
}

double WorkSums::forward_once(int begin, int end) const {
  return std::min(difference(forward_, begin, end) + action_s_,
                  difference(forward0_, begin, end) + (action_s_ + first_action_s_));
}

double WorkSums::input_once(int begin, int end) const {
  const double first_s = action_s_ + (split_ ? 2 : 1) * first_action_s_;
  return std::min(difference(input_, begin, end) + action_s_,
                  std::max(-weight_once(begin, end), difference(input0_, begin, end) + first_s));
}

OrderTimes WorkSums::times(int begin, int end, double speed) const {
  const double forward_s = difference(forward_, begin, end) + action_s_;
  const double input_s = difference(input_, begin, end) + action_s_;
  const double weight_s = split_ ? difference(weight_, begin, end) + weight_action_s_ : 0;
  OrderTimes of{forward_s, input_s + weight_s, input_s, weight_s, 0, 0};
  if (!whole_.empty()) {
    of.backward_s = difference(whole_, begin, end) + action_s_;
    of.weight_s = difference(parts_, begin, end) - difference(input_, begin, end);
  }
  of.first_forward_s =
      difference(forward0_, begin, end) - difference(forward_, begin, end) + first_action_s_;
  of.first_backward_s = difference(input0_, begin, end) - difference(input_, begin, end) +
                        (split_ ? 2 : 1) * first_action_s_;
  for (double OrderTimes::*time_s :
       {&OrderTimes::forward_s, &OrderTimes::backward_s, &OrderTimes::input_s,
        &OrderTimes::weight_s, &OrderTimes::first_forward_s, &OrderTimes::first_backward_s})
    of.*time_s /= speed;
  return of;
}

double WorkSums::bare_forward(int begin, int end) const {
  return std::max(0.0,
                  std::min(difference(forward_, begin, end), difference(forward0_, begin, end)));
}

double WorkSums::bare_input(int begin, int end) const {
  return std::max(0.0, std::min(difference(input_, begin, end), difference(input0_, begin, end)));
}

}  // namespace penstock
