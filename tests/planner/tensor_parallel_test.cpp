// Plans over tensor groups, of costs made up for what their ranks run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/plan/sharing.hpp"
#include "pipeline/plan/tensor_parallel.hpp"
#include "planner/rank_model.hpp"
#include "simulator/costs/group_profile.hpp"
#include "simulator/network/grouped.hpp"
#include "tests/models/models.hpp"
#include "tests/planner/grouped_model.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

PlanRequest asking(std::optional<int> parts, int ranks) {
  PlanRequest request;
  request.ranks = ranks;
  request.tensor_parallel = parts;
  return request;
}

/// Eight devices on two nodes, with links that make parts worthwhile.
Cluster two_nodes() {
  return {.path = "two_nodes.yaml",
          .ranks = 8,
          .link = {.mode = SendMode::posted},
          .nodes = {{.count = 2,
                     .devices = 4,
                     .latency_s = 1e-7,
                     .bandwidth = 1e11,
                     .cards = 2,
                     .card_bandwidth = 1e9}},
          .between = {.latency_s = 1e-5}};
}

/// A cluster's file is named in plans.
Cluster written_two_nodes(const TemporaryFolder& folder) {
  Cluster cluster = two_nodes();
  cluster.path = folder.write("two_nodes.yaml", "of this test\n");
  return cluster;
}

TEST(PlanTensorParallel, TheBestOfAllSizesIsTakenAndTheBoundIsOfAll) {
  PENSTOCK_MODEL(path, "gpt2");
  const GroupedModel of(path);
  const Cluster cluster = written_two_nodes(of.folder);
  const auto few_microbatches = [](std::optional<int> parts) {
    PlanRequest request = asking(parts, 4);
    request.data_parallel = 1;
    request.microbatches = 2;
    return request;
  };
  double best_s = INFINITY, bound_s = INFINITY;
  for (const int parts : {1, 2, 4}) {
    const Planned one = of.plan(few_microbatches(parts), &cluster);
    EXPECT_TRUE(one.complete);
    EXPECT_EQ(one.plan.tensor_parallel, parts);
    EXPECT_LE(one.plan.all_ranks(), 4);
    best_s = std::min(best_s, one.plan.prediction->step_s);
    bound_s = std::min(bound_s, one.lower_bound_s);
  }
  const Planned all = of.plan(few_microbatches(std::nullopt), &cluster);
  EXPECT_TRUE(all.complete);
  EXPECT_EQ(all.plan.prediction->step_s, best_s);
  EXPECT_EQ(all.lower_bound_s, bound_s);
  EXPECT_GT(all.plan.tensor_parallel, 1);
}

/// As `simulate` does with the plan's file.
Simulation simulated(const GroupedModel& of, const Plan& plan, const Cluster* cluster) {
  const Graph model = planned_model(plan, of.model).graph;
  const Slicing slicing = slice(plan, model, analyse(model));
  const Profile profile = group_profile(of.profile, group_costs(plan, of.profile), model, cluster);
  return simulate(lowered_program(plan, slicing),
                  plan_costs(plan, model, slicing, profile, cluster),
                  plan_network(profile, cluster), {});
}

/// The plan on two replicas of pipelines of groups of two, and what its file simulates to.
void expect_simulated_as_planned(const GroupedModel& of, const Cluster* cluster,
                                 PlanSharing sharing) {
  PlanRequest request = asking(2, 8);
  request.data_parallel = 2;
  request.schedules = {"1f1b"};
  request.split = {"transformer.h.1:beginning"};
  request.sharing = sharing;
  const Planned planned = of.plan(request, cluster);
  const auto file = of.folder.path() / "plan.yaml";
  const Plan read = parse_plan(to_yaml(planned.plan, file), file);
  EXPECT_EQ(read.tensor_parallel, 2);
  EXPECT_EQ(read.sharding, columns_and_rows);
  const auto way = sharing == PlanSharing::transmit ? way_transmit : way_replicate;
  EXPECT_THAT(read.shared_parameters, ElementsAre(Pair("transformer.wte.weight", way)));
  std::vector<int> groups;
  for (size_t first = 0; first < read.devices.size(); first += 2)
    groups.push_back(read.devices[first] / 2);
  std::optional<Cluster> used;
  if (cluster) used = grouped(*cluster, 2);
  if (used && !groups.empty()) used = on_devices(*used, groups);
  const Simulation run = simulated(of, read, used ? &*used : nullptr);
  EXPECT_EQ(run.makespan_s, planned.plan.prediction->step_s);
  EXPECT_EQ(run.peak_memory_bytes, planned.plan.prediction->peak_memory_bytes);
}

TEST(PlanTensorParallel, APlansFileSimulatesAsItWasPlanned) {
  PENSTOCK_MODEL(path, "gpt2");
  const GroupedModel of(path);
  const Cluster cluster = written_two_nodes(of.folder);
  for (const Cluster* on : {static_cast<const Cluster*>(nullptr), &cluster}) {
    for (const PlanSharing sharing : {PlanSharing::replicate, PlanSharing::transmit})
      expect_simulated_as_planned(of, on, sharing);
  }
}

TEST(PlanTensorParallel, NoSplitByHandBeatsTheBound) {
  PENSTOCK_MODEL(path, "gpt2");
  const GroupedModel of(path);
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    PlanRequest request = asking(2, 4);
    request.schedules = {schedule};
    request.microbatches = 4;
    request.data_parallel = 1;
    request.stages_per_rank = 1;
    const Planned best = of.plan(request);
    double least_s = INFINITY;
    const Graph& model = best.model->inputs().model;
    for (const OperatorId begin : best.model->chain().begins()) {
      if (begin == 0) continue;
      Plan plan = best.plan;
      plan.stages = {{.rank = 0}, {.rank = 1, .begin = begin_name(model, begin)}};
      least_s = std::min(least_s, simulated(of, plan, nullptr).makespan_s);
    }
    EXPECT_GE(least_s, best.lower_bound_s) << schedule;
    EXPECT_LE(best.plan.prediction->step_s, least_s * (1 + 1e-12)) << schedule;
  }
}

TEST(PlanTensorParallel, APartHoldsLess) {
  PENSTOCK_MODEL(path, "gpt2");
  const GroupedModel of(path);
  PlanRequest one = asking(1, 1), four = asking(4, 4);
  one.microbatches = four.microbatches = 8;
  four.data_parallel = 1;
  const auto peak = [&](const PlanRequest& request) {
    return of.plan(request).simulation.peak_memory_bytes.front();
  };
  EXPECT_LT(peak(four), peak(one));
}

TEST(PlanTensorParallel, GroupsAreSuggestedWhereTheyFitAndNothingElseDoes) {
  PENSTOCK_MODEL(path, "gpt2");
  const GroupedModel of(path);
  const auto request = [](int parts) {
    PlanRequest asked = asking(parts, 4);
    asked.data_parallel = 1;
    asked.schedules = {"1f1b"};
    return asked;
  };
  const auto least = [&](int parts) {
    PlanRequest asked = request(parts);
    asked.objective = PlanObjective::memory;
    return std::ranges::max(of.plan(asked).simulation.peak_memory_bytes);
  };
  PlanRequest tight = request(1);
  tight.memory_bytes = std::min(least(2), least(4));
  ASSERT_LT(*tight.memory_bytes, least(1));
  const std::string message = of.error(tight), flag = ", or with --tensor-parallel ";
  const size_t at = message.find(flag);
  ASSERT_NE(at, std::string::npos) << message;
  tight.tensor_parallel = std::stoi(message.substr(at + flag.size()));
  EXPECT_EQ(of.error(tight), "");
}

TEST(PlanTensorParallel, GroupsHaveNeighboursOfANode) {
  PENSTOCK_MODEL(path, "gpt2");
  const GroupedModel of(path);
  Cluster cluster = written_two_nodes(of.folder);
  cluster.nodes.front().devices = 3;
  cluster.nodes.front().cards = 1;
  cluster.ranks = 6;
  PlanRequest request = asking(2, 4);
  request.split = {"transformer.h.1:beginning"};
  EXPECT_THAT(of.plan(request, &cluster).plan.devices, ElementsAre(0, 1, 3, 4));
}

TEST(PlanTensorParallel, WhatIsNotKnownIsRefused) {
  PENSTOCK_MODEL(path, "gpt2");
  const GroupedModel of(path);
  EXPECT_THAT(of.error(asking(8, 8)), AllOf(HasSubstr("knows nothing of tensor groups of 8"),
                                            HasSubstr("Profile the job with --tensor-parallel 8")));
  EXPECT_THAT(of.error(asking(4, 2)), HasSubstr("fewer ranks than a tensor group of 4 has"));
}

}  // namespace
}  // namespace penstock::test
