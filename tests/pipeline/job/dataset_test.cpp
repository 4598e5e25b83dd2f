#include "pipeline/job/dataset.hpp"

#include <gmock/gmock.h>

#include "tests/base/support.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using testing::batch;
using ::testing::HasSubstr;

TEST(Dataset, AnOutputWhoseRowsGrowWithTheBatchHasNoTargetsThatCanBeSaved) {
  testing::GraphBuilder towers;
  const ValueId users = towers.input("users", {batch, 4});
  const ValueId items = towers.input("items", {batch, 4});
  towers.output(towers.op("aten::mm", {users, items}, {batch, batch}));
  Job job;
  job.loss = Loss::bce_with_logits;
  const std::string message = input_error([&] { expected_samples(job, towers.graph, true); });
  EXPECT_THAT(message, HasSubstr("dimension 1 of its output `mm` depends on the batch"));
  EXPECT_THAT(message, HasSubstr("`loss: output`"));
  EXPECT_EQ(expected_samples(job, towers.graph, false).size(), 2);  // forwards need no target
  job.loss = Loss::output;
  EXPECT_EQ(expected_samples(job, towers.graph, true).size(), 2);
}

}  // namespace
}  // namespace penstock
