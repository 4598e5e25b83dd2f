// The recompute of ranks against other sets of their units.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "graph/cuts/segments.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "simulator/engine/memory.hpp"
#include "simulator/engine/simulate.hpp"
#include "tests/models/models.hpp"
#include "tests/planner/profiled_model.hpp"

namespace penstock::test {
namespace {

/// A plan with a stage on each rank, of which other units may recompute.
struct TriedUnits {
  TriedUnits(const ProfiledModel& from, Plan planned)
      : of(from), analysis(analyse(of.model)), all(units(of.model, analysis)), plan(planned) {
    const auto of_stages = units_of_stages(slice(plan, of.model, analysis), all);
    for (const std::vector<int>& units : of_stages) {
      labels.emplace_back();
      for (const int unit : units) labels.back().push_back(all[static_cast<size_t>(unit)].label);
    }
  }

  const Recompute& recompute(int rank) const {
    return plan.stages[static_cast<size_t>(rank)].recompute;
  }
  std::vector<std::string> chosen(int rank) const {
    const auto& own = labels[static_cast<size_t>(rank)];
    if (recompute(rank).first_units == 0) return recompute(rank).units;
    return {own.begin(), own.begin() + recompute(rank).first_units};
  }

  /// By how much a rank's backwards take longer where these units recompute, and what it holds.
  std::pair<double, int64_t> seconds_and_bytes(int rank, const std::vector<std::string>& chosen) {
    Plan tried = plan;
    tried.stages[static_cast<size_t>(rank)].recompute = {.units = chosen};
    const Slicing slicing = slice(tried, of.model, analysis);
    const Costs costs = plan_costs(tried, of.model, slicing, of.profile);
    const Program program = delay_receives(lowered_program(tried, slicing));
    return {costs.stages[static_cast<size_t>(rank)].recompute_s,
            memory_of_rank(program, rank, costs).peak_bytes};
  }

  /// The least seconds with which it holds no more than that, by any set of its units.
  double least_s(int rank, int64_t bytes) {
    const std::vector<std::string>& own = labels[static_cast<size_t>(rank)];
    double least = std::numeric_limits<double>::infinity();
    for (size_t set = 0; set < size_t{1} << own.size(); ++set) {
      std::vector<std::string> some;
      for (size_t i = 0; i < own.size(); ++i)
        if ((set >> i & 1) != 0) some.push_back(own[i]);
      const auto [seconds, held] = seconds_and_bytes(rank, some);
      if (held <= bytes) least = std::min(least, seconds);
    }
    return least;
  }

  const ProfiledModel& of;
  const Analysis analysis;
  const std::vector<Unit> all;
  const Plan plan;
  std::vector<std::vector<std::string>> labels;  // of the units of each stage
};

TEST(RecomputeFit, NoUnitOfAPlanCanBeLeftOutAndMostRanksTakeTheLeastTime) {
  int fitting = 0, least = 0, by_name = 0;
  for (const char* name : {"gpt2", "vit"}) {
    SCOPED_TRACE(name);
    PENSTOCK_MODEL(path, name);
    const ProfiledModel f(path);
    for (const char* schedule : {"1f1b", "zb-h1", "gpipe"}) {
      PlanRequest request{.ranks = 2,
                          .schedules = {schedule},
                          .microbatches = 4,
                          .stages_per_rank = 1,
                          .data_parallel = 1};
      const int64_t peak = std::ranges::max(f.plan(request).plan.prediction->peak_memory_bytes);
      for (const int percent : {95, 80, 60}) {
        SCOPED_TRACE(std::string(schedule) + " " + std::to_string(percent));
        request.memory_bytes = peak * percent / 100;
        if (!f.error(request).empty()) continue;
        TriedUnits plan(f, f.plan(request).plan);
        for (int rank = 0; rank < 2; ++rank) {
          const Recompute planned = plan.recompute(rank);
          if (!planned.of_units()) continue;
          const auto [seconds, bytes] = plan.seconds_and_bytes(rank, plan.chosen(rank));
          EXPECT_LE(bytes, *request.memory_bytes);
          for (const std::string& unit : plan.chosen(rank)) {
            std::vector<std::string> others = plan.chosen(rank);
            std::erase(others, unit);
            EXPECT_GT(plan.seconds_and_bytes(rank, others).second, *request.memory_bytes) << unit;
          }
          ++fitting;
          by_name += planned.first_units == 0;
          least += seconds <= plan.least_s(rank, *request.memory_bytes) * (1 + 1e-12);
        }
      }
    }
  }
  EXPECT_GT(fitting, 10);
  EXPECT_GT(by_name, fitting / 4);
  EXPECT_GT(least, fitting / 2);
}

TEST(RecomputeFit, NoOtherUnitsOfASplitByHandTakeLessThanWasProven) {
  PENSTOCK_MODEL(path, "gpt2");
  const ProfiledModel f(path);
  std::mt19937_64 random(1);
  int fitting = 0;
  for (const int each : {1, 2}) {
    PlanRequest request{.ranks = 2,
                        .schedules = {each == 1 ? "1f1b" : "interleaved-1f1b"},
                        .microbatches = 4,
                        .stages_per_rank = each,
                        .data_parallel = 1,
                        .split = {"transformer.h.1:beginning"}};
    if (each == 2)
      request.split = {"transformer.h.0.ln_2:beginning", "transformer.h.1:beginning",
                       "transformer.h.1.ln_2:beginning"};
    const int64_t peak = std::ranges::max(f.plan(request).plan.prediction->peak_memory_bytes);
    request.memory_bytes = peak * 4 / 5;
    const Planned planned = f.plan(request);
    EXPECT_FALSE(planned.complete);
    EXPECT_LT(planned.proven_s(), planned.plan.prediction->step_s);
    TriedUnits tried(f, planned.plan);
    for (int set = 0; set < 400; ++set) {
      Plan plan = planned.plan;
      for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
        plan.stages[stage].recompute = {};
        for (const std::string& unit : tried.labels[stage])
          if (random() % 2 == 0) plan.stages[stage].recompute.units.push_back(unit);
      }
      const Slicing slicing = slice(plan, f.model, tried.analysis);
      const Costs costs = plan_costs(plan, f.model, slicing, f.profile);
      const Simulation run =
          simulate(lowered_program(plan, slicing), costs, plan_network(f.profile, nullptr));
      if (std::ranges::max(run.peak_memory_bytes) > *request.memory_bytes) continue;
      ++fitting;
      EXPECT_GE(run.makespan_s, planned.proven_s() * (1 - 1e-12));
    }
  }
  EXPECT_GT(fitting, 100);
}

}  // namespace
}  // namespace penstock::test
