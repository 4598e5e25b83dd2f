// Times of conversions between parts in a group's profile, by hand.
#include "simulator/costs/group_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock {
namespace {

using sharding::Layout;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A parameter of `elements` on each part, scaled, converted; `reads` says that the parameter is
/// trained.
struct Converting {
  Graph graph;
  GroupCosts costs{.parts = 4, .microbatches = {{.microbatch = 2}}};

  Converting(const Layout& from, const Layout& to, int64_t held, int64_t given, bool trained) {
    graph.tensors.push_back({.name = "w", .requires_grad = trained, .sizes = {held}});
    graph.values = {{.name = "x", .kind = Value::Kind::user_input, .shape = {Expression::batch()}},
                    {.name = "w", .kind = Value::Kind::tensor, .shape = {held}, .tensor = 0},
                    {.name = "y", .shape = {held}, .producer = 0},
                    {.name = "z", .shape = {given}, .producer = 1}};
    Operator scale{.name = "y", .target = "aten::mul", .outputs = {2}};
    scale.arguments = {{"self", TensorRef{1}}, {"other", TensorRef{0}}};
    Operator convert = sharding::conversion_operator(sharding::conversion(from, to), 2);
    convert.name = "z";
    convert.outputs = {3};
    graph.operators = {scale, convert};
    MicrobatchCosts& size = costs.microbatches.front();
    size.operators.resize(2);
    size.units = {{.label = "all", .begin = 0, .end = 2}};
  }

  /// The conversion over a link of a latency of 1 and a bandwidth of 16.
  ActionTimes all_times(const std::string& device = "cuda") const {
    Profile profile;
    profile.device.kind = device;
    const Cluster cluster{.ranks = 2, .link = {.latency_s = 1, .bandwidth = 16}};
    const Profile of = group_profile(profile, costs, graph, &cluster);
    const MicrobatchCosts& size = of.microbatches.front();
    const ActionTimes &own = size.operators[1].times, &unit = size.units.front().times;
    EXPECT_EQ(unit, own) << "a unit's time is that of its operators";
    EXPECT_EQ(size.operators[0].times, ActionTimes());
    EXPECT_EQ(size.sent[0], ActionSeconds());
    EXPECT_EQ(size.sent[1], (ActionSeconds{own.forward.mean_s, own.backward.mean_s,
                                           own.backward_input.mean_s, own.backward_weight.mean_s}))
        << "nothing else takes time here";
    return own;
  }
  /// F and B.
  std::pair<double, double> times(const std::string& device = "cuda") const {
    const ActionTimes own = all_times(device);
    EXPECT_EQ(own.backward.mean_s, own.backward_input.mean_s);
    EXPECT_EQ(own.backward_weight.mean_s, 0);
    return {own.forward.mean_s, own.backward.mean_s};
  }
};

const Layout whole = Layout::identical(), replicated = Layout::replicated(),
             partial = Layout::partial(), split = Layout::split(0);

// 64 elements of 4 bytes as a whole, over 4 ranks: an all-gather sends 192 bytes in 3 rounds.
TEST(GroupProfile, AConversionTakesItsMessagesBothWays) {
  EXPECT_EQ(Converting(split, replicated, 16, 64, true).times(), std::pair(3 + 12., 3 + 12.));
  EXPECT_EQ(Converting(partial, split, 64, 16, true).times(), std::pair(3 + 12., 3 + 12.));
  EXPECT_EQ(Converting(partial, whole, 64, 64, true).times(), std::pair(6 + 24., 0.));
  EXPECT_EQ(Converting(whole, replicated, 64, 64, true).times(), std::pair(0., 6 + 24.));
  EXPECT_EQ(Converting(whole, split, 64, 16, true).times(), std::pair(0., 3 + 12.));
}

// It has twice the rounds and bytes.
TEST(GroupProfile, GlooHasNoReduceScatter) {
  EXPECT_EQ(Converting(partial, split, 64, 16, true).times("cpu"), std::pair(6 + 24., 3 + 12.));
  EXPECT_EQ(Converting(split, replicated, 16, 64, true).times("cpu"), std::pair(3 + 12., 6 + 24.));
}

/// Read by a product with a parameter, whose W needs it.
TEST(GroupProfile, WhatIsGatheredAgainTakesItsMessagesInTheBackwardToo) {
  Converting read(split, replicated, 16, 64, true);
  Graph& graph = read.graph;
  Operator again = sharding::conversion_operator(sharding::conversion(split, replicated), 2, true);
  graph.operators[1].target = again.target;
  graph.tensors.push_back({.name = "v", .requires_grad = true, .sizes = {64}});
  graph.values.push_back({.name = "v", .kind = Value::Kind::tensor, .shape = {64}, .tensor = 1});
  graph.values.push_back({.name = "u", .shape = {64}, .producer = 2});
  Operator scale{.name = "u", .target = "aten::mul", .outputs = {5}};
  scale.arguments = {{"self", TensorRef{3}}, {"other", TensorRef{4}}};
  graph.operators.push_back(scale);
  MicrobatchCosts& size = read.costs.microbatches.front();
  size.operators.resize(3);
  size.units.front().end = 3;
  const ActionTimes times = read.all_times();
  EXPECT_EQ(times.forward.mean_s, 3 + 12.);
  EXPECT_EQ(times.backward.mean_s, 2 * (3 + 12.));
  EXPECT_EQ(times.backward_input.mean_s, 3 + 12.);
  EXPECT_EQ(times.backward_weight.mean_s, 3 + 12.);
}

/// Logits [4, 8] on each of 4 parts, and a loss of theirs, over the link of Converting.
MicrobatchCosts with_loss(bool of_the_model) {
  Graph graph;
  graph.tensors.push_back({.name = "w", .requires_grad = true, .sizes = {4, 8}});
  graph.values = {{.name = "w", .kind = Value::Kind::tensor, .shape = {4, 8}, .tensor = 0},
                  {.name = "t", .kind = Value::Kind::user_input, .shape = {4}},
                  {.name = "logits", .shape = {4, 8}, .producer = 0},
                  {.name = "loss", .producer = 1}};
  Operator scale{.name = "logits", .target = "aten::mul", .outputs = {2}};
  scale.arguments = {{"self", TensorRef{0}}, {"other", TensorRef{0}}};
  Operator loss{.name = "loss", .target = "aten::cross_entropy_loss", .outputs = {3}};
  loss.arguments = {{"self", TensorRef{2}}, {"target", TensorRef{1}}};
  graph.operators = {scale};
  if (of_the_model)
    graph.operators.push_back(sharding::cross_entropy_of_classes(loss, Layout::split(1), 32));
  graph.outputs = {of_the_model ? Output{"loss", TensorRef{3}}
                                : Output{"logits", TensorRef{2}, Layout::split(1).str()}};
  GroupCosts costs{.parts = 4, .microbatches = {{.microbatch = 4}}};
  costs.microbatches.front().operators.resize(graph.operators.size());
  const Cluster cluster{.ranks = 2, .link = {.latency_s = 1, .bandwidth = 16}};
  return group_profile({}, costs, graph, &cluster).microbatches.front();
}

// A part gives 3 numbers of 4 bytes for each of 4 rows: a rank sends 144 bytes in 3 rounds.
TEST(GroupProfile, ALossOfSplitClassesTakesItsMessagesForward) {
  EXPECT_EQ(with_loss(false).loss_forward.mean_s, 3 + 9.);
  EXPECT_EQ(with_loss(false).operators.front().times, ActionTimes());
  const MicrobatchCosts own = with_loss(true);
  EXPECT_EQ(own.loss_forward.mean_s, 0);
  EXPECT_EQ(own.operators.back().times.forward.mean_s, 3 + 9.);
  EXPECT_EQ(own.operators.back().times.backward.mean_s, 0);
}

TEST(GroupProfile, WhatIsNotTrainedSendsNothingBack) {
  EXPECT_EQ(Converting(split, replicated, 16, 64, false).times(), std::pair(3 + 12., 0.));
}

TEST(GroupProfile, ReplaysAndSizesOfTheWholeModelAreLeftOut) {
  Profile profile;
  profile.microbatches = {{.microbatch = 1}, {.microbatch = 2}};
  profile.replays.emplace_back();
  const Converting one(split, replicated, 16, 64, true);
  const Profile of = group_profile(profile, one.costs, one.graph, nullptr);
  EXPECT_TRUE(of.replays.empty());
  EXPECT_EQ(of.at(1), nullptr);
}

TEST(GroupProfile, IsFoundByPartsPinsAndMicrobatch) {
  Profile profile;
  profile.path = "p.json";
  profile.groups = {{.parts = 2, .microbatches = {{.microbatch = 4}}},
                    {.parts = 2,
                     .sharding = {.parameters = {{"*.weight", split, "elsewhere"}}},
                     .microbatches = {{.microbatch = 4}, {.microbatch = 8}}}};
  Plan plan{.microbatch = 4, .tensor_parallel = 2};
  EXPECT_EQ(&group_costs(plan, profile), &profile.groups[0]);
  plan.sharding.parameters = {{"*.weight", split, "here"}};
  EXPECT_EQ(&group_costs(plan, profile), &profile.groups[1]);
  const auto refusal = [&] {
    try {
      group_costs(plan, profile);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  plan.sharding.parameters.front().pattern = "a.weight";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("groups of 2 at microbatch 4 with the plan's `sharding`"),
                               HasSubstr("--tensor-parallel 2 --sharding PLAN.yaml")));
  profile.groups.erase(profile.groups.begin());
  plan.sharding = {};
  EXPECT_THAT(refusal(), HasSubstr("Give the plan the `sharding` of one of the profile's `groups`. "
                                   "It has 2 parts at microbatch 4, 8."));
  plan.tensor_parallel = 4;
  EXPECT_THAT(refusal(), HasSubstr("--tensor-parallel 4. It has 2 parts at microbatch 4, 8."));
}

}  // namespace
}  // namespace penstock
