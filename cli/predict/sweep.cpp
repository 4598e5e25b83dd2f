#include "cli/predict/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace penstock::cli {

namespace {

/// The rank with the least room left, and how much it holds.
std::pair<int64_t, int64_t> fullest_and_limit(const Planned& planned) {
  const std::vector<int64_t>& peaks = planned.simulation.peak_memory_bytes;
  size_t fullest = 0;
  for (size_t rank = 1; rank < peaks.size(); ++rank) {
    const auto used = [&](size_t of) {
      return peaks[of] + planned.memory.reserved_of(static_cast<int>(of));
    };
    if (used(rank) > used(fullest)) fullest = rank;
  }
  const int64_t limit = planned.memory.any() ? planned.memory.of(static_cast<int>(fullest)) : 0;
  return {peaks[fullest], limit};
}

SweptPlan swept(const Planned& planned) {
  const Plan& plan = planned.plan;
  const auto [peak_bytes, limit_bytes] = fullest_and_limit(planned);
  return {.schedule = plan.schedule,
          .optimizer_state = plan.optimizer_state,
          .ranks = plan.ranks(),
          .stages_per_rank = static_cast<int>(plan.stages.size()) / plan.ranks(),
          .tensor_parallel = plan.tensor_parallel,
          .data_parallel = plan.data_parallel,
          .microbatches = plan.microbatches,
          .microbatch = plan.microbatch,
          .global_batch = plan.job.global_batch,
          .step_s = plan.prediction->step_s,
          .expected_s = plan.prediction->expected_s,
          .lower_bound_s = planned.lower_bound_s,
          .complete = planned.complete,
          .peak_memory_bytes = peak_bytes,
          .memory_bytes = limit_bytes};
}

PlanCase changed(PlanCase plan, const Sweep& sweep, const SweepRow& row) {
  std::vector<size_t> order(row.values.size());
  for (size_t axis = 0; axis < order.size(); ++axis) order[axis] = axis;
  std::ranges::sort(order, {}, [&](size_t axis) { return sweep.axes[axis].turn; });
  for (const size_t axis : order) row.values[axis].change(plan);
  return plan;
}

void keep_new(std::vector<std::string>& warnings, const std::vector<std::string>& more) {
  for (const std::string& warning : more)
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
}

/// The first of the rows where it is least, as far as rounding tells.
const SweepRow* least(const Sweep& sweep, double (*cost)(const SweepRow&)) {
  constexpr double rounding = 1e-9;
  const SweepRow* best = nullptr;
  for (const SweepRow& row : sweep.rows)
    if (row.plan && (!best || cost(row) < cost(*best) * (1 - rounding))) best = &row;
  return best;
}

}  // namespace

const SweepRow* Sweep::fastest() const {
  return least(*this, [](const SweepRow& row) { return 1 / row.plan->samples_per_s(); });
}

const SweepRow* Sweep::cheapest() const {
  return least(*this, [](const SweepRow& row) { return row.plan->device_s_per_sample(); });
}

Sweep combinations(std::vector<SweepAxis> axes) {
  Sweep sweep{std::move(axes), {SweepRow{}}, {}};
  for (const SweepAxis& axis : sweep.axes) {
    std::vector<SweepRow> longer;
    for (const SweepRow& row : sweep.rows) {
      for (const SweepValue& value : axis.values) {
        longer.push_back(row);
        longer.back().values.push_back(value);
      }
    }
    sweep.rows = std::move(longer);
  }
  return sweep;
}

std::string values_text(const Sweep& sweep, const SweepRow& row) {
  std::vector<std::string> texts;
  for (size_t axis = 0; axis < sweep.axes.size(); ++axis)
    texts.push_back(sweep.axes[axis].key + "=" + row.values[axis].text);
  return fmt::format("{}", fmt::join(texts, ", "));
}

void plan_rows(Sweep& sweep, const PlanCase& base, const Graph& model,
               const RowProgress& progress) {
  for (SweepRow& row : sweep.rows) {
    if (base.request.stop && base.request.stop()) {
      row.problem = SearchStopped().what();
      continue;
    }
    const auto tell = [&](const std::string& what, double share) { progress(row, what, share); };
    try {
      const PlanCase plan = changed(base, sweep, row);
      const Planned planned = make_plan(
          plan.profile, model, plan.cluster ? &*plan.cluster : nullptr, plan.request, tell);
      keep_new(sweep.warnings, planned.warnings);
      row.plan = swept(planned);
    } catch (const InputError& error) {
      row.problem = error.what();
    } catch (const SearchStopped& stopped) {
      row.problem = stopped.what();
    }
  }
}

}  // namespace penstock::cli
