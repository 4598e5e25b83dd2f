// The keys under `optimizer` that a training run adds, and the schedule of its learning rate. That
// the rates are Hugging Face's is shown by tests/cli/training/test_training.py.
#include "pipeline/job/optimizer_spec.hpp"

#include <gmock/gmock.h>

#include "pipeline/job/job.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Decay = OptimizerSpec::Decay;

std::string job_with(const std::string& optimizer, const std::string& more = "") {
  return "penstock: job\nmodel: m.pt2\nloss: mse\noptimizer: {kind: sgd, learning_rate: 0.1" +
         optimizer + "}\nglobal_batch: 8\nsteps: 100\n" + more;
}

class TrainingKeys : public ::testing::Test {
 protected:
  Job read(const std::string& text) { return read_job(folder_.write("job.yaml", text)); }
  TemporaryFolder folder_;
};

TEST_F(TrainingKeys, AreReadAndWrittenBackEqual) {
  const Job job = read(job_with(
      ", warmup_steps: 10, decay: cosine, final_learning_rate: 0.01, clip_norm: 0.5, "
      "no_decay: norms_and_biases, frozen: [wte, \"*.bias\"], groups: [{parameters: [h.0], "
      "learning_rate: 0.2}, {parameters: head, weight_decay: 0}]",
      "precision: bf16\n"));
  const OptimizerSpec& spec = job.optimizer;
  EXPECT_EQ(spec.warmup_steps, 10);
  EXPECT_EQ(spec.decay, Decay::cosine);
  EXPECT_EQ(spec.final_learning_rate, 0.01);
  EXPECT_EQ(spec.clip_norm, 0.5);
  EXPECT_TRUE(spec.no_decay_of_norms_biases);
  EXPECT_THAT(spec.frozen, ::testing::ElementsAre("wte", "*.bias"));
  ASSERT_EQ(spec.groups.size(), 2u);
  EXPECT_EQ(spec.groups[0].learning_rate, 0.2);
  EXPECT_FALSE(spec.groups[0].weight_decay);
  EXPECT_EQ(spec.groups[1].weight_decay, 0);
  EXPECT_EQ(job.precision, Precision::bf16);
  const auto path = folder_.path() / "copy.yaml";
  const std::string written = to_yaml(job, path);
  EXPECT_EQ(read_job(folder_.write("copy.yaml", written)), job) << written;
}

TEST_F(TrainingKeys, AreNotWrittenWhereTheyAreNotUsed) {
  EXPECT_EQ(to_yaml(read(job_with("")), folder_.path() / "job.yaml"),
            "penstock: job\nmodel: m.pt2\nloss: mse\n"
            "optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0.0, weight_decay: 0.0}\n"
            "global_batch: 8\nsteps: 100\nseed: 0\n");
}

TEST_F(TrainingKeys, MistakesAreRefusedWithPlaceValueAndCure) {
  struct Case {
    std::string text, place, problem, cure;
  };
  const Case cases[] = {
      {job_with(", warmup_steps: -1"), "optimizer.warmup_steps", "`-1` is not", "Write"},
      {job_with(", warmup_steps: 101"), "optimizer.warmup_steps", "the job has 100 steps", "fewer"},
      {job_with(", decay: cos"), "optimizer.decay", "no decay `cos`", "linear or cosine"},
      {job_with(", final_learning_rate: 0.01"), "optimizer.final_learning_rate", "does not decay",
       "decay: cosine"},
      {job_with(", decay: linear, final_learning_rate: 0.2"), "optimizer.final_learning_rate",
       "`0.2` is not a number in 0..0.1", "Write"},
      {job_with(", clip_norm: 0"), "optimizer.clip_norm", "every gradient 0", "positive"},
      {job_with(", no_decay: biases"), "optimizer.no_decay", "no `biases`", "norms_and_biases"},
      {job_with(", groups: [{parameters: a}]"), "optimizer.groups[0]", "no settings of its own",
       "learning_rate"},
      {job_with(", groups: [{parameters: [], weight_decay: 0}]"), "optimizer.groups[0]",
       "names no parameters", "PATTERN"},
      {job_with(", groups: [{parameters: a, momentum: 0}]"), "optimizer.groups[0].momentum",
       "unknown key", "Keys here are"},
      {job_with("", "precision: fp16\n"), "precision", "no precision `fp16`", "bf16"},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(input_error([&] { read(each.text); }),
                AllOf(HasSubstr(each.place), HasSubstr(each.problem), HasSubstr(each.cure)));
  }
}

OptimizerSpec schedule(Decay decay, int64_t warmup, double last) {
  OptimizerSpec spec;
  spec.learning_rate = 1;
  spec.decay = decay;
  spec.warmup_steps = warmup;
  spec.final_learning_rate = last;
  return spec;
}

TEST(LearningRate, WarmsUpAlongALineAndStays) {
  const OptimizerSpec spec = schedule(Decay::constant, 4, 0);
  const double expected[] = {0, 0.25, 0.5, 0.75, 1, 1};
  for (int64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(learning_rate_factor(spec, step, 100), expected[step]);
  }
}

TEST(LearningRate, DecaysAfterTheWarmUpToItsFinalValueAndStaysThere) {
  const OptimizerSpec line = schedule(Decay::linear, 2, 0.5);
  EXPECT_EQ(learning_rate_factor(line, 2, 10), 1);
  EXPECT_EQ(learning_rate_factor(line, 6, 10), 0.75);
  EXPECT_EQ(learning_rate_factor(line, 10, 10), 0.5);
  EXPECT_EQ(learning_rate_factor(line, 1000, 10), 0.5);
  const OptimizerSpec cosine = schedule(Decay::cosine, 2, 0.5);
  EXPECT_EQ(learning_rate_factor(cosine, 2, 10), 1);
  EXPECT_EQ(learning_rate_factor(cosine, 6, 10), 0.75);  // halfway, where the cosine is 0
  EXPECT_EQ(learning_rate_factor(cosine, 1000, 10), 0.5);
}

TEST(LearningRate, AJobWithoutAScheduleKeepsIt) {
  EXPECT_EQ(learning_rate_factor({}, 0, 1), 1);
  EXPECT_EQ(learning_rate_factor({}, 5, 1), 1);
}

}  // namespace
}  // namespace penstock
