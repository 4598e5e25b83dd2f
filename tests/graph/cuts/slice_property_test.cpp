// Random graphs, cut at random: every stage can run from what its slice and its edges give it, and
// it is given nothing that it does not use.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "graph/cuts/cuts.hpp"
#include "graph/cuts/slice.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using testing::batch;
using testing::GraphBuilder;

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    pool_ = {b_.input("x", {batch, 4}), b_.input("y", {batch, 4}), b_.parameter("w", {4}),
             b_.parameter("v", {4}), b_.buffer("mask", {4})};
    const int operators = below(20) + 5;
    for (int i = 0; i < operators; ++i) add_operator();
    b_.output(pool_.back());
  }

  Graph& graph() { return b_.graph; }
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  /// Ascending begins of one to four stages.
  std::vector<OperatorId> begins() {
    std::set<OperatorId> chosen{0};
    for (int i = below(4); i > 0; --i)
      chosen.insert(below(static_cast<int>(b_.graph.operators.size())));
    return {chosen.begin(), chosen.end()};
  }

 private:
  void add_operator() {
    static const std::vector<std::string> targets = {"aten::add",  "aten::detach", "aten::randn",
                                                     "aten::relu", "aten::full",   "aten::mul"};
    const std::string& target = targets[static_cast<size_t>(below(6))];
    const int reads = target == "aten::full" || target == "aten::randn" ? 0 : below(3) + 1;
    std::vector<ValueId> arguments;
    bool batched = false;
    for (int i = 0; i < reads; ++i) {
      arguments.push_back(pool_[static_cast<size_t>(below(static_cast<int>(pool_.size())))]);
      const auto& shape = b_.graph.values[arguments.back()].shape;
      batched |= shape.front().depends_on_batch();
    }
    pool_.push_back(
        b_.op(target, arguments, batched ? testing::Shape{batch, 4} : testing::Shape{4}));
  }

  GraphBuilder b_;
  std::mt19937 random_;
  std::vector<ValueId> pool_;
};

/// Values that stage `stage` starts with: its user inputs, its tensors, what it receives.
std::set<ValueId> given(const Graph& graph, const Slicing& slicing, int stage) {
  const StageSlice& slice = slicing.stages[static_cast<size_t>(stage)];
  std::set<ValueId> values(slice.user_inputs.begin(), slice.user_inputs.end());
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].kind == Value::Kind::tensor &&
        std::ranges::count(slice.tensors, graph.values[id].tensor) > 0)
      values.insert(static_cast<ValueId>(id));
  for (const StageEdge& edge : slicing.edges)
    if (edge.consumer == stage)
      for (const Crossing& crossing : edge.values) values.insert(crossing.value);
  return values;
}

void check_stage(const Graph& graph, const Slicing& slicing, int stage) {
  const StageSlice& slice = slicing.stages[static_cast<size_t>(stage)];
  const std::set<ValueId> start = given(graph, slicing, stage);
  std::set<ValueId> there = start, used;
  for (const OperatorId id : slice.operators) {
    for (const ValueId read : graph.operators[static_cast<size_t>(id)].reads()) {
      EXPECT_TRUE(there.contains(read))
          << "stage " << stage << " lacks " << graph.values[static_cast<size_t>(read)].name;
      used.insert(read);
    }
    for (const ValueId output : graph.operators[static_cast<size_t>(id)].outputs)
      there.insert(output);
  }
  for (const int index : slice.outputs) {
    const ValueId value =
        std::get<TensorRef>(graph.outputs[static_cast<size_t>(index)].value).value;
    EXPECT_TRUE(there.contains(value));
    used.insert(value);
  }
  for (const ValueId value : start)
    EXPECT_TRUE(used.contains(value))
        << graph.values[static_cast<size_t>(value)].name << " in vain";
}

TEST(SliceProperty, StagesRunFromWhatTheyAreGivenAndUseAllOfIt) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph random(seed);
    const Graph& graph = random.graph();
    const Analysis analysis = analyse(graph);
    const auto begins = random.begins();
    const int stages = static_cast<int>(begins.size());
    const Slicing slicing = slice(graph, analysis, interval_stages(graph, begins), stages);
    for (int stage = 0; stage < stages; ++stage) check_stage(graph, slicing, stage);
  }
}

TEST(SliceProperty, EveryOperatorOfTheDataFlowRunsOnce) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph random(seed);
    const Graph& graph = random.graph();
    const Analysis analysis = analyse(graph);
    const auto begins = random.begins();
    const Slicing slicing =
        slice(graph, analysis, interval_stages(graph, begins), static_cast<int>(begins.size()));
    std::vector<int> runs(graph.operators.size());
    for (const StageSlice& stage : slicing.stages)
      for (const OperatorId id : stage.operators) ++runs[static_cast<size_t>(id)];
    for (size_t id = 0; id < runs.size(); ++id)
      EXPECT_TRUE(runs[id] == 1 || is_recomputed(graph.operators[id], analysis)) << id;
  }
}

/// With two stages all that crosses goes from the first to the second: the two definitions agree.
TEST(SliceProperty, TwoStagesExchangeTheValuesAtTheCut) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph random(seed);
    const Graph& graph = random.graph();
    const Analysis analysis = analyse(graph);
    const auto bytes = cut_bytes(graph, analysis, 3);
    const auto count = static_cast<OperatorId>(graph.operators.size());
    for (OperatorId position = 1; position < count; ++position) {
      const Slicing slicing = slice(graph, analysis, interval_stages(graph, {0, position}), 2);
      std::vector<ValueId> sent;
      for (const StageEdge& edge : slicing.edges)
        for (const Crossing& crossing : edge.values) sent.push_back(crossing.value);
      EXPECT_EQ(sent, values_at_cut(graph, analysis, position));
      int64_t total = 0;
      for (const ValueId value : sent) total += graph.values[static_cast<size_t>(value)].bytes(3);
      EXPECT_EQ(bytes[static_cast<size_t>(position)], total);
    }
  }
}

}  // namespace
}  // namespace penstock
