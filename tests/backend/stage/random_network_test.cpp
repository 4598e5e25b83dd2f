// Any network, split anywhere, trains as it does unsplit under PyTorch's autograd. A failing test's
// name ends with the seed; --gtest_filter=*/SEED repeats it.
//
// Both sides run the same kernels in double precision on the same microbatches. They differ by the
// order in which gradients of one value or parameter are added, at most some ten terms, and by
// kernels that see another memory layout: some hundred roundings of 2^-53, 1e-14, which layers
// with slopes up to ten may enlarge. 1e-10 is what the project promises for float64.
#include <gtest/gtest.h>

#include "graph/cuts/cuts.hpp"
#include "tests/backend/stage/random_network.hpp"

namespace penstock::test {
namespace {

constexpr double kTolerance = 1e-10;

/// A stage sends zeros where autograd gives nothing, so a parameter that the loss does not depend
/// on may have zeros in a split network and nothing in the whole one.
StepOutcome with_zeros(StepOutcome expected, const StepOutcome& actual) {
  for (const auto& [index, gradient] : actual.gradients) {
    if (!expected.gradients.contains(index)) expected.gradients[index] = at::zeros_like(gradient);
  }
  return expected;
}

class RandomNetworks : public ::testing::TestWithParam<int> {};

TEST_P(RandomNetworks, TrainSplitAnywhereAsUnsplitInPyTorch) {
  RandomNetwork network(static_cast<unsigned>(GetParam()));
  const Graph& graph = network.graph;
  const Batch batch = network.batch(2 + network.below(2));
  const StepOutcome expected = reference_step(graph, clones(network.tensors), batch, Loss::mse);
  ASSERT_FALSE(expected.gradients.empty());
  for (int split = 0; split < 3; ++split) {
    const std::vector<OperatorId> begins = network.begins();
    std::string cuts;
    for (const OperatorId begin : begins) cuts += " " + begin_name(graph, begin);
    SCOPED_TRACE("stages begin at" + cuts);
    const int ahead = network.below(3);  // microbatches between a forward and its backward
    StageRow row(graph, network.tensors, begins, Loss::mse);
    const StepOutcome whole = row.step(batch, Backward::whole, ahead);
    expect_close(whole, with_zeros(expected, whole), kTolerance, graph);
    StageRow row_of_parts(graph, network.tensors, begins, Loss::mse, network.below(2) == 0);
    const StepOutcome parts = row_of_parts.step(batch, Backward::split, ahead);
    expect_close(parts, with_zeros(expected, parts), kTolerance, graph);
    for (const auto& [index, buffer] : whole.buffers) {
      EXPECT_TRUE(at::allclose(buffer, expected.buffers.at(index), kTolerance, kTolerance))
          << graph.tensors[static_cast<size_t>(index)].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomNetworks, ::testing::Range(0, 100));

}  // namespace
}  // namespace penstock::test
