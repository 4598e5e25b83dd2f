// Parameters of several stages: what a plan may say of them, and who owns them.
#include "pipeline/plan/sharing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "pipeline/plan/plan.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/pipeline/tiny_model.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// `first`, `second` and `third` of a weight each, but that of `first` is used by `third` too.
Graph tied_model() {
  TinyModel model;
  model.add("first", {"first"}).add("second", {"second"}).add("third", {"third"}, {}, "first.w");
  return model.graph();
}

Plan three_stages(const std::vector<int>& ranks, const std::map<std::string, std::string>& shared) {
  Plan plan;
  plan.path = "plan.yaml";
  const char* begins[] = {"", "second", "third"};
  for (size_t i = 0; i < ranks.size(); ++i) {
    plan.stages.push_back({.rank = ranks[i], .begin = begins[i]});
  }
  plan.shared_parameters = shared;
  return plan;
}

TEST(SharedParameters, AreReplicatedUnlessThePlanTransmitsThem) {
  const Graph model = tied_model();
  for (const auto& [said, transmitted] :
       {std::pair<std::map<std::string, std::string>, bool>{{}, false},
        {{{"first.w", "replicate"}}, false},
        {{{"first.w", "transmit"}}, true}}) {
    const Slicing slicing = sliced(three_stages({0, 1, 2}, said), model);
    ASSERT_EQ(slicing.shared.size(), 1U);
    EXPECT_THAT(slicing.shared[0].stages, ElementsAre(0, 2));
    EXPECT_EQ(slicing.shared[0].transmitted, transmitted);
  }
}

TEST(SharedParameters, AreOwnedByTheRankOfTheFirstStageThatUsesThem) {
  const Slicing::Shared shared{0, {1, 2, 4, 5}};
  const Holders holders = holders_of(shared, {0, 3, 1, 2, 3, 1});
  EXPECT_EQ(holders.owner, 3);
  EXPECT_THAT(holders.others, ElementsAre(1));
  EXPECT_THAT(holders_of(shared, {0, 0, 0, 0, 0, 0}).others, IsEmpty());
}

TEST(SharedParameters, TransmittedAreReadAndWritten) {
  const TemporaryFolder folder;
  Plan plan = three_stages({0, 1, 2}, {{"first.w", "transmit"}});
  plan.job.model = "tiny.pt2";
  plan.job.global_batch = plan.job.steps = 1;
  plan.job.optimizer.learning_rate = 0.1;
  const auto path = folder.path() / "plan.yaml";
  EXPECT_EQ(parse_plan(to_yaml(plan, path), path).shared_parameters, plan.shared_parameters);
}

TEST(SharedParameters, WhatIsFrozenStaysAsItIsOnEveryRank) {
  Graph model = tied_model();
  for (StoredTensor& tensor : model.tensors) tensor.requires_grad = tensor.name != "first.w";
  const Slicing slicing = sliced(three_stages({0, 1, 2}, {{"first.w", "transmit"}}), model);
  EXPECT_THAT(slicing.shared, IsEmpty());
}

TEST(SharedParameters, WithNobodyToSendToAreRefused) {
  const Graph model = tied_model();
  const auto message = AllOf(HasSubstr("plan.yaml: shared_parameters.first.w"),
                             HasSubstr("one rank alone uses it"), HasSubstr("Remove the line"));
  EXPECT_THAT(refusal(three_stages({0, 1, 0}, {{"first.w", "transmit"}}), model), message);
  EXPECT_EQ(refusal(three_stages({0, 1, 0}, {{"first.w", "replicate"}}), model), "");
  EXPECT_THAT(refusal(three_stages({0, 1, 2}, {{"second.w", "transmit"}}), model),
              HasSubstr("shared_parameters.second.w: one rank alone uses it"));
  EXPECT_THAT(refusal(three_stages({0, 1, 2}, {{"frist.w", "transmit"}}), model),
              AllOf(HasSubstr("shared_parameters.frist.w: the model has no parameter"),
                    HasSubstr("Did you mean first.w?")));
}

TEST(SharedParameters, NamesOfOneParameterDoNotSayDifferentThings) {
  Graph model = tied_model();
  for (StoredTensor& tensor : model.tensors)
    if (tensor.name == "first.w") tensor.aliases = {"third.w"};
  EXPECT_THAT(
      refusal(three_stages({0, 1, 2}, {{"first.w", "replicate"}, {"third.w", "transmit"}}), model),
      AllOf(HasSubstr("shared_parameters.third.w: `transmit`, but `first.w`"),
            HasSubstr("has `replicate`"), HasSubstr("one line")));
  const Slicing by_alias = sliced(three_stages({0, 1, 2}, {{"third.w", "transmit"}}), model);
  EXPECT_TRUE(by_alias.shared.at(0).transmitted);
}

}  // namespace
}  // namespace penstock
