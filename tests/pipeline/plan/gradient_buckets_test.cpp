// Which gradients are summed together, in which order, by whom.
#include "pipeline/plan/gradient_buckets.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace penstock {
namespace {

using Lists = std::vector<std::vector<int>>;

/// Each operator reads the value before it and its tensors, of 100 float32 numbers each.
Graph chain(const Lists& tensors_of_operators) {
  Graph graph;
  const auto value = [&](Value::Kind kind, int tensor) {
    graph.values.push_back({.kind = kind, .tensor = tensor});
    return static_cast<ValueId>(graph.values.size()) - 1;
  };
  ValueId data = value(Value::Kind::user_input, -1);
  std::vector<ValueId> stored;
  for (const auto& tensors : tensors_of_operators) {
    for (const int tensor : tensors) {
      while (static_cast<int>(stored.size()) <= tensor) {
        stored.push_back(value(Value::Kind::tensor, static_cast<int>(stored.size())));
        graph.tensors.push_back({.requires_grad = true, .sizes = {100}});
      }
    }
  }
  for (const auto& tensors : tensors_of_operators) {
    Operator& op = graph.operators.emplace_back();
    op.arguments.push_back({"input", TensorRef{data}});
    for (const int tensor : tensors)
      op.arguments.push_back({"other", TensorRef{stored[static_cast<size_t>(tensor)]}});
    data = value(Value::Kind::intermediate, -1);
    op.outputs = {data};
  }
  return graph;
}

/// An operator a stage where `stages` says so; tensors as the operators read them.
Slicing sliced(const Lists& tensors_of_operators, const std::vector<int>& stages) {
  Slicing slicing;
  slicing.stage_of_operator = stages;
  slicing.stages.resize(static_cast<size_t>(stages.back()) + 1);
  std::map<int, std::set<int>> holders;
  for (size_t op = 0; op < stages.size(); ++op) {
    StageSlice& slice = slicing.stages[static_cast<size_t>(stages[op])];
    slice.operators.push_back(static_cast<OperatorId>(op));
    for (const int tensor : tensors_of_operators[op]) {
      slice.tensors.push_back(tensor);
      holders[tensor].insert(stages[op]);
    }
  }
  for (const auto& [tensor, of] : holders) {
    if (of.size() > 1) slicing.shared.push_back({tensor, {of.begin(), of.end()}});
  }
  return slicing;
}

Plan plan_of(const std::vector<int>& ranks, int64_t replicas, int64_t bucket_bytes = 25'000'000) {
  Plan plan;
  for (const int rank : ranks) plan.stages.emplace_back().rank = rank;
  plan.data_parallel = replicas;
  plan.all_reduce.bucket_bytes = bucket_bytes;
  return plan;
}

std::vector<GradientBucket> buckets(const Plan& plan, const Lists& tensors,
                                    const std::vector<int>& stages, int rank) {
  const Graph graph = chain(tensors);
  return gradient_buckets(plan, graph, sliced(tensors, stages), trainable_tensors(graph), rank);
}

Lists ranks_of(const std::vector<GradientBucket>& buckets) {
  Lists ranks;
  for (const GradientBucket& bucket : buckets) ranks.push_back(bucket.ranks);
  return ranks;
}

Lists tensors_of(const std::vector<GradientBucket>& buckets) {
  Lists tensors;
  for (const GradientBucket& bucket : buckets) tensors.push_back(bucket.tensors);
  return tensors;
}

TEST(GradientBuckets, AreFilledAsABackwardMakesGradientsFinal) {
  // Tensor 0 is used first and last, so it is final last.
  const Lists tensors{{0}, {1, 2}, {3}, {0, 4}};
  EXPECT_EQ(tensors_of(buckets(plan_of({0}, 2), tensors, {0, 0, 0, 0}, 0)),
            (Lists{{4, 3, 1, 2, 0}}));
  const auto full = buckets(plan_of({0}, 2, 800), tensors, {0, 0, 0, 0}, 1);
  EXPECT_EQ(tensors_of(full), (Lists{{4, 3}, {1, 2}, {0}}));
  EXPECT_EQ(full[0].bytes, 800);
  EXPECT_EQ(full[0].first_use, 2);
  EXPECT_EQ(full[1].first_use, 1);
  EXPECT_EQ(full[2].first_use, 0);
  EXPECT_EQ(tensors_of(buckets(plan_of({0}, 2, 1), tensors, {0, 0, 0, 0}, 0)),
            (Lists{{4}, {3}, {1}, {2}, {0}}));
}

TEST(GradientBuckets, WhatIsComputedFromParametersAloneIsNoUse) {
  // Operator 0 makes a value of tensor 0 alone, which operator 2 reads.
  Graph graph = chain({{0}, {1}, {2}});
  Slicing slicing = sliced({{0}, {1}, {2}}, {0, 0, 0});
  graph.operators[0].arguments.erase(graph.operators[0].arguments.begin());
  graph.operators[1].arguments[0].value = TensorRef{0};
  graph.operators[2].arguments.push_back({"made", TensorRef{graph.operators[0].outputs[0]}});
  EXPECT_EQ(tensors_of(gradient_buckets(plan_of({0}, 2), graph, slicing, {0, 1, 2}, 0)),
            (Lists{{0, 2, 1}}));
}

TEST(GradientBuckets, AStageHasItsOwnAndLaterStagesComeFirst) {
  const auto found = buckets(plan_of({0, 1, 0}, 2), {{0}, {1}, {2}}, {0, 1, 2}, 2);
  EXPECT_EQ(tensors_of(found), (Lists{{2}, {0}}));
  EXPECT_EQ(ranks_of(found), (Lists{{0, 2}, {0, 2}}));
  EXPECT_EQ(found[0].stages, std::vector<int>{2});
}

TEST(GradientBuckets, EqualPartsOfReplicasSumAndAllPartsWhereEachHasATerm) {
  const Lists tensors{{0, 1}, {2}};
  Graph graph = chain(tensors);
  graph.tensors[1].sums_over_parts = true;
  Plan plan = plan_of({0, 1}, 2);
  plan.tensor_parallel = 2;
  const auto of = [&](int rank) {
    return gradient_buckets(plan, graph, sliced(tensors, {0, 1}), {0, 1, 2}, rank);
  };
  EXPECT_EQ(ranks_of(of(0)), (Lists{{0, 4}, {0, 1, 4, 5}}));
  EXPECT_EQ(ranks_of(of(5)), (Lists{{1, 5}, {0, 1, 4, 5}}));
  EXPECT_EQ(tensors_of(of(5)), (Lists{{0}, {1}}));
  EXPECT_EQ(ranks_of(of(3)), (Lists{{3, 7}}));
  plan.data_parallel = 1;
  EXPECT_EQ(ranks_of(of(1)), (Lists{{0, 1}}));
  EXPECT_EQ(tensors_of(of(1)), (Lists{{1}}));
}

TEST(GradientBuckets, PartsSumWhatStagesShareWithEqualParts) {
  const Lists tensors{{0}, {0}};
  Graph graph = chain(tensors);
  Plan plan = plan_of({0, 1}, 1);
  plan.tensor_parallel = 2;
  const auto ranks = [&](bool have_terms) {
    graph.tensors[0].sums_over_parts = have_terms;
    return ranks_of(gradient_buckets(plan, graph, sliced(tensors, {0, 1}), {0}, /*rank=*/3));
  };
  EXPECT_EQ(ranks(false), (Lists{{1, 3}}));
  EXPECT_EQ(ranks(true), (Lists{{0, 1, 2, 3}}));
}

TEST(GradientBuckets, TypesAreApart) {
  Graph graph = chain({{0}, {1}, {2}});
  graph.tensors[1].dtype = DType::float64;
  const auto found =
      gradient_buckets(plan_of({0}, 2), graph, sliced({{0}, {1}, {2}}, {0, 0, 0}), {0, 1, 2}, 0);
  EXPECT_EQ(tensors_of(found), (Lists{{2, 0}, {1}}));
  EXPECT_EQ(found[1].dtype, DType::float64);
}

TEST(GradientBuckets, WhatIsNotTrainedIsInNone) {
  const Graph graph = chain({{0}, {1}});
  EXPECT_EQ(
      tensors_of(gradient_buckets(plan_of({0}, 2), graph, sliced({{0}, {1}}, {0, 0}), {1}, 0)),
      (Lists{{1}}));
}

/// Tensor 0 is in stages 0 and 2, tensor 1 in all, tensor 2 in stage 1.
const Lists shared_tensors{{0, 1}, {1, 2}, {0, 1}};

TEST(GradientBuckets, OfSharedParametersAreTheirHoldersInOneOrder) {
  const auto found = [&](const std::vector<int>& ranks, int rank) {
    return ranks_of(buckets(plan_of(ranks, 1), shared_tensors, {0, 1, 2}, rank));
  };
  EXPECT_EQ(found({0, 1, 2}, 0), (Lists{{0, 1, 2}, {0, 2}}));
  EXPECT_EQ(found({0, 1, 2}, 1), (Lists{{0, 1, 2}}));
  // Stages 0 and 2 on one rank share one tensor: nothing to sum for tensor 0.
  EXPECT_EQ(found({0, 1, 0}, 0), (Lists{{0, 1}}));
}

TEST(GradientBuckets, ReplicasSumEveryParameterAndWhatRanksShareLast) {
  const auto found = buckets(plan_of({0, 1, 2}, 2), shared_tensors, {0, 1, 2}, 4);
  EXPECT_EQ(ranks_of(found), (Lists{{1, 4}, {0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(tensors_of(found), (Lists{{2}, {1}}));
  EXPECT_FALSE(found[0].shared);
  EXPECT_TRUE(found[1].shared);
}

TEST(GradientBuckets, OwnersSumWhatIsTransmittedAtTheEnd) {
  const Graph graph = chain(shared_tensors);
  Slicing slicing = sliced(shared_tensors, {0, 1, 2});
  for (Slicing::Shared& each : slicing.shared) each.transmitted = true;
  const auto found =
      gradient_buckets(plan_of({0, 1, 2}, 2), graph, slicing, trainable_tensors(graph), 0);
  EXPECT_EQ(tensors_of(found), (Lists{{0, 1}}));
  EXPECT_EQ(ranks_of(found), (Lists{{0, 3}}));
  EXPECT_TRUE(found[0].shared);
}

TEST(GradientBuckets, OwnersPartsSumWhatIsTransmittedAndAllOfThemWhereEachHasATerm) {
  Graph graph = chain(shared_tensors);
  graph.tensors[1].sums_over_parts = true;
  Slicing slicing = sliced(shared_tensors, {0, 1, 2});
  for (Slicing::Shared& each : slicing.shared) each.transmitted = true;
  Plan plan = plan_of({0, 1, 2}, 2);
  plan.tensor_parallel = 2;
  const auto of = [&](int rank) {
    return gradient_buckets(plan, graph, slicing, trainable_tensors(graph), rank);
  };
  EXPECT_EQ(tensors_of(of(7)), (Lists{{0}, {1}}));
  EXPECT_EQ(ranks_of(of(7)), (Lists{{1, 7}, {0, 1, 6, 7}}));
  EXPECT_EQ(tensors_of(of(2)), (Lists{{2}}));  // the second stage owns none of them
}

}  // namespace
}  // namespace penstock
