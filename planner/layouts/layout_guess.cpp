#include "planner/layouts/layout_guess.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace penstock {

namespace {

/// Stages x microbatches; no schedule takes more.
constexpr int64_t most_pairs = INT32_MAX;

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Whole microbatches that the first rank holds.
double held(const PipelineLayout& layout) {
  const ScheduleShape shape = layout.shape();
  if (!layout.schedule) return std::min(shape.microbatches, shape.ranks);
  return layout.schedule->held(shape, 0) / static_cast<double>(shape.stages_per_rank);
}

/// How long a rank idles, in microbatches of its own: F, I and W taken as equally long.
double idle(const PipelineLayout& layout) {
  constexpr StageTimes equal{1, 1, 1};
  const ScheduleShape shape = layout.shape();
  const double hops = shape.ranks - 1;
  const double idle_s = layout.schedule
                            ? layout.schedule->idle_s(shape, equal).value_or(hops * equal.whole_s())
                            : hops * (equal.whole_s() - 2 * equal.weight_s);
  return idle_s / (shape.stages_per_rank * equal.whole_s());
}

}  // namespace

LayoutGuess::LayoutGuess(const ChainCosts& costs, const StageBytes& kept, int64_t fixed_bytes)
    : forward_s_(total(costs.forward_s)),
      backward_s_(total(costs.backward_s) + total(costs.weight_s)),
      host_s_(total(costs.host_s)),
      once_s_(total(costs.optimizer_s) + total(costs.unit_reduce_s)),
      kept_bytes_(static_cast<double>(kept.per_microbatch)),
      given_bytes_(static_cast<double>(kept.given)),
      fixed_bytes_(static_cast<double>(fixed_bytes)) {}

double LayoutGuess::step_s(const PipelineLayout& layout, int64_t limit_bytes, double cores) const {
  const double p = layout.ranks;
  const auto m = static_cast<double>(layout.microbatches);
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (layout.microbatches * layout.stages() > most_pairs) return infinite;
  const double kept = held(layout) * kept_bytes_ / p;
  const double room = static_cast<double>(limit_bytes) - fixed_bytes_ / p;
  if (room < held(layout) * given_bytes_) return infinite;
  const double recomputed = kept > room ? 1 - room / kept : 0;
  const double each_s = ((1 + recomputed) * forward_s_ + backward_s_) / p;
  const double mean_speed = std::min(layout.speeds().together(), cores) / p;
  const double step_s = ((m + idle(layout)) * each_s + once_s_ / p) / mean_speed;
  return std::max(step_s, m * host_s_ / p);
}

}  // namespace penstock
