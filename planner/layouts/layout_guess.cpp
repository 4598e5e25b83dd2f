#include "planner/layouts/layout_guess.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace penstock {

namespace {

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Microbatches of all its stages that the first rank holds.
double held(const PipelineLayout& layout) {
  const double p = layout.ranks, v = layout.stages_per_rank;
  const auto m = static_cast<double>(layout.microbatches);
  const std::string_view name = layout.name();
  if (name == "gpipe" || name == "looped-bfs") return m;
  if (name == "zb-h2") return std::min(m, 2 * p - 1);
  if (name.starts_with("interleaved")) return std::min(m, (2 * (p - 1) + (v - 1) * p + 1) / v);
  return std::min(m, p);
}

/// Of (P - 1) stages of F and B.
double ramp(const PipelineLayout& layout) {
  const double v = layout.stages_per_rank;
  if (!layout.schedule) return 1 / (3 * v);
  const bool v_shaped = layout.schedule->stages_per_rank == 2;
  if (v_shaped) return 0.1;
  return (layout.schedule->split_backward ? 1.0 / 3 : 1.0) / v;
}

}  // namespace

LayoutGuess::LayoutGuess(const ChainCosts& costs, const StageBytes& all, int64_t fixed_bytes)
    : forward_s_(total(costs.forward_s)),
      backward_s_(total(costs.backward_s) + total(costs.weight_s)),
      host_s_(total(costs.host_s)),
      once_s_(total(costs.optimizer_s) + total(costs.unit_reduce_s)),
      kept_bytes_(static_cast<double>(all.per_microbatch)),
      given_bytes_(static_cast<double>(all.given)),
      fixed_bytes_(static_cast<double>(fixed_bytes)) {}

double LayoutGuess::step_s(const PipelineLayout& layout, int64_t limit_bytes) const {
  const double p = layout.ranks;
  const auto m = static_cast<double>(layout.microbatches);
  const double kept = held(layout) * kept_bytes_ / p;
  const double room = static_cast<double>(limit_bytes) - fixed_bytes_ / p;
  if (room < held(layout) * given_bytes_) return std::numeric_limits<double>::infinity();
  const double again = kept > room ? 1 - room / kept : 0;
  const double each_s = ((1 + again) * forward_s_ + backward_s_) / p;
  const double mean_speed = layout.speeds().together() / p;
  const double step_s = ((m + ramp(layout) * (p - 1)) * each_s + once_s_ / p) / mean_speed;
  return std::max(step_s, m * host_s_ / p);
}

}  // namespace penstock
