#include "backend/profiler/timing/budget.hpp"

#include <algorithm>

namespace penstock::profiler {

void Budget::add_pass(int64_t size, double pass_s) {
  const double step_s = pass_s * double(global_batch_) / double(size);
  step_s_ = step_s_ == 0 ? step_s : std::min(step_s_, step_s);
}

int64_t peak_bytes(const MicrobatchCosts& costs) {
  HeldSums sums;
  for (const UnitCost& unit : costs.units) sums.add(unit.held);
  return std::max(sums.forward.then(sums.backward).peak,
                  sums.forward.then(sums.backward_input).then(sums.backward_weight).peak);
}

void Budget::add_bytes(int64_t size, int64_t bytes) {
  if (size <= largest_) return;
  largest_ = size;
  largest_bytes_ = bytes;
}

void Budget::add(const MicrobatchCosts& costs) {
  double pass_s = costs.loss_forward.mean_s;
  for (const UnitCost& unit : costs.units) {
    for (const Measured& action : {unit.times.forward, unit.times.backward})
      pass_s += std::max(action.mean_s, action.host_s);
  }
  add_pass(costs.microbatch, pass_s);
  add_bytes(costs.microbatch, peak_bytes(costs));
}

double Budget::bytes(int64_t size) const {
  return largest_ == 0 ? 0 : double(largest_bytes_) / double(largest_) * double(size);
}

}  // namespace penstock::profiler
