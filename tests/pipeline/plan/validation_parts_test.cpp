#include "pipeline/plan/validation_parts.hpp"

#include <gmock/gmock.h>

#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Plan plan_with_microbatches_of_4() {
  Plan plan;
  plan.microbatches = 3;
  plan.microbatch = 4;
  plan.data_parallel = 2;
  plan.job.global_batch = 24;
  return plan;
}

TEST(ValidationParts, AreWholeMicrobatchesAndWhatIsLeft) {
  const Plan plan = plan_with_microbatches_of_4();
  Graph model;
  model.dynamic_batch = true;
  EXPECT_THAT(validation_parts("validation", plan, model, 8), ElementsAre(ValidationPart{0, 8, 4}));
  EXPECT_THAT(validation_parts("validation", plan, model, 11),
              ElementsAre(ValidationPart{0, 8, 4}, ValidationPart{8, 3, 3}));
  EXPECT_THAT(validation_parts("validation", plan, model, 3), ElementsAre(ValidationPart{0, 3, 3}));
}

TEST(ValidationParts, AreRefusedWhereTheModelTakesNoSmallerBatch) {
  Graph model;
  model.path = "model.pt2";
  EXPECT_THAT(
      input_error([&] { validation_parts("validation", plan_with_microbatches_of_4(), model, 6); }),
      HasSubstr("6 samples are 2 more than whole microbatches of 4, and model.pt2 takes no batch"));
  model.dynamic_batch = true;
  model.min_batch = 2;
  EXPECT_EQ(validation_parts("validation", plan_with_microbatches_of_4(), model, 6).size(), 2u);
  EXPECT_THAT(
      input_error([&] { validation_parts("validation", plan_with_microbatches_of_4(), model, 5); }),
      HasSubstr("1 more"));
}

TEST(WithMicrobatch, KeepsTheNumberOfMicrobatchesAndReplicas) {
  const Plan plan = with_microbatch(plan_with_microbatches_of_4(), 1);
  EXPECT_EQ(plan.microbatch, 1);
  EXPECT_EQ(plan.microbatches, 3);
  EXPECT_EQ(plan.job.global_batch, 6);
}

}  // namespace
}  // namespace penstock
