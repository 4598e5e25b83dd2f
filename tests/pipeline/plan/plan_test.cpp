// The plan file: what is read, written back, and refused.
#include "pipeline/plan/plan.hpp"

#include <gmock/gmock.h>

#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string digest(64, 'a');

const std::string plan_text =
    "penstock: plan\n"
    "version: 1\n"
    "job:\n"
    "  model: m.pt2\n"
    "  loss: mse\n"
    "  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0.0, weight_decay: 0.0}\n"
    "  data: train.safetensors\n"
    "  global_batch: 32\n"
    "  steps: 100\n"
    "  seed: 0\n"
    "model_sha256: " +
    digest +
    "\n"
    "profile: {path: profile.json, sha256: " +
    digest +
    "}\n"
    "cluster: {path: ../two_nodes.yaml}\n"
    "schedule: 1f1b\n"
    "microbatches: 8\n"
    "microbatch: 2\n"
    "data_parallel: 2\n"
    "stages:\n"
    "  - {rank: 0, begin: \"\", recompute: false}\n"
    "  - {rank: 1, begin: layers.4, recompute: true}\n"
    "all_reduce: {bucket: 25000000, overlap: true}\n"
    "shared_parameters: {wte.weight: replicate}\n"
    "prediction: {step_s: 0.5, lower_bound_s: 0.4, bubble: 0.125, peak_memory_bytes: [100, 200]}\n";

std::string changed_plan(const std::string& part, const std::string& by) {
  std::string text = plan_text;
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), by);
}

class PlanFile : public ::testing::Test {
 protected:
  Plan read(const std::string& text) { return read_plan(folder_.write("sub/plan.yaml", text)); }
  std::string refusal(const std::string& text) {
    return input_error([&] { read(text); });
  }
  TemporaryFolder folder_;
};

TEST_F(PlanFile, IsRead) {
  const Plan plan = read(plan_text);
  EXPECT_EQ(plan.job.model, folder_.path() / "sub/m.pt2");
  EXPECT_EQ(plan.model_sha256, digest);
  EXPECT_EQ(plan.profile->path, folder_.path() / "sub/profile.json");
  EXPECT_EQ(plan.profile->sha256, digest);
  EXPECT_EQ(plan.cluster->path, folder_.path() / "two_nodes.yaml");
  EXPECT_EQ(plan.schedule, "1f1b");
  EXPECT_EQ(plan.microbatches, 8);
  EXPECT_EQ(plan.microbatch, 2);
  EXPECT_EQ(plan.data_parallel, 2);
  EXPECT_EQ(plan.ranks(), 2);
  EXPECT_EQ(plan.stages[1].begin, "layers.4");
  EXPECT_TRUE(plan.stages[1].recompute.whole);
  EXPECT_EQ(plan.shared_parameters.at("wte.weight"), "replicate");
  EXPECT_EQ(plan.prediction->bubble, 0.125);
  EXPECT_THAT(plan.prediction->peak_memory_bytes, ElementsAre(100, 200));
}

TEST_F(PlanFile, NamesTheDevicesOfItsRanks) {
  const std::string text = changed_plan("schedule:", "devices: [3, 0, 2, 1]\nschedule:");
  const Plan plan = read(text);
  EXPECT_THAT(plan.devices, ElementsAre(3, 0, 2, 1));
  EXPECT_THAT(to_yaml(plan, plan.path), HasSubstr("devices: [3, 0, 2, 1]\n"));
}

TEST(RankOfProcess, IsTheRankWhoseDeviceItIsOn) {
  Plan plan;
  for (const int rank : {0, 1}) plan.stages.emplace_back().rank = rank;
  plan.data_parallel = 2;
  EXPECT_THAT(rank_of_process(plan), ::testing::ElementsAre(0, 1, 2, 3));
  plan.devices = {5, 2, 9, 0};  // those of ranks 0 to 3
  EXPECT_THAT(rank_of_process(plan), ::testing::ElementsAre(3, 1, 0, 2));
}

TEST_F(PlanFile, IsWrittenAsItWasRead) {
  EXPECT_EQ(to_yaml(read(plan_text), folder_.path() / "sub/plan.yaml"), plan_text);
  const std::string by_hand = changed_plan("  - {rank: 1, begin: layers.4, recompute: true}\n",
                                           "  - {rank: 1, modules: [a.b, c@1], recompute: true}\n");
  EXPECT_EQ(to_yaml(read(by_hand), folder_.path() / "sub/plan.yaml"), by_hand);
  const std::string units = changed_plan("recompute: true", "recompute: 3");
  EXPECT_EQ(read(units).stages[1].recompute, Recompute{.first_units = 3});
  const std::string named = changed_plan("recompute: true", "recompute: [layers.4, add_7]");
  const std::vector<std::string> expected{"layers.4", "add_7"};
  EXPECT_EQ(read(named).stages[1].recompute, Recompute{.units = expected});
  EXPECT_EQ(to_yaml(read(units), folder_.path() / "sub/plan.yaml"), units);
  const std::string program = changed_plan("schedule: 1f1b", "program: ../p.csv");
  EXPECT_EQ(to_yaml(read(program), folder_.path() / "sub/plan.yaml"), program);
}

TEST_F(PlanFile, SaysHowTensorGroupsSplitOperators) {
  const Plan plan = read(changed_plan("stages:",
                                      "tensor_parallel: 4\n"
                                      "sharding:\n"
                                      "  parameters: {\"*.qkv.weight\": {split: 0, blocks: 3}, "
                                      "\"*.weight\": whole}\n"
                                      "  values: {\"layers.?\": {split: 1}}\n"
                                      "  prices: {state: 1000, saved: 100}\n"
                                      "  random: by_part\n"
                                      "  gathered: again\n"
                                      "stages:"));
  for (const Plan& each : {plan, read(to_yaml(plan, plan.path))}) {
    EXPECT_EQ(each.tensor_parallel, 4);
    ASSERT_EQ(each.sharding.parameters.size(), 2u);
    EXPECT_EQ(each.sharding.parameters[0].pattern, "*.qkv.weight");
    EXPECT_EQ(each.sharding.parameters[0].layout.str(), "S(0, 3)");
    EXPECT_EQ(each.sharding.parameters[1].layout.str(), "I");
    ASSERT_EQ(each.sharding.values.size(), 1u);
    EXPECT_EQ(each.sharding.values[0].pattern, "layers.?");
    EXPECT_EQ(each.sharding.values[0].layout.str(), "S(1)");
    EXPECT_EQ(each.sharding.costs, (sharding::Costs{.state_byte = 1000, .saved_byte = 100}));
    EXPECT_TRUE(each.sharding.random_by_part);
    EXPECT_TRUE(each.sharding.gathers_again);
  }
}

TEST_F(PlanFile, NumbersTheRanksReplicaByReplicaAlongThePipelinePartByPart) {
  Plan plan = read(plan_text);
  plan.tensor_parallel = 3;
  EXPECT_EQ(plan.all_ranks(), 12);
  int next = 0;
  for (int replica = 0; replica < 2; ++replica) {
    for (int rank = 0; rank < 2; ++rank) {
      for (int part = 0; part < 3; ++part, ++next) {
        EXPECT_EQ(plan.rank_at({replica, rank, part}), next);
        const RankPlace place = plan.place_of(next);
        EXPECT_THAT(std::vector({place.replica, place.rank, place.part}),
                    ElementsAre(replica, rank, part));
      }
    }
  }
  EXPECT_EQ(rank_of_process(plan).size(), 12u);
}

TEST_F(PlanFile, GradientsAreSummedInBucketsBesideTheBackwardsUnlessItSaysOtherwise) {
  const std::string given = "all_reduce: {bucket: 25000000, overlap: true}\n";
  const auto sums = [&](const std::string& text) {
    return read(changed_plan(given, text)).all_reduce;
  };
  EXPECT_EQ(sums(""), (GradientSums{25'000'000, true}));
  EXPECT_EQ(sums("all_reduce: {}\n"), GradientSums{});
  EXPECT_EQ(sums("all_reduce: {bucket: 4MiB}\n"), (GradientSums{4 << 20, true}));
  EXPECT_EQ(sums("all_reduce: {overlap: false}\n"), (GradientSums{25'000'000, false}));
  EXPECT_THAT(refusal(changed_plan(given, "all_reduce: {bucket: 0}\n")),
              AllOf(HasSubstr("all_reduce.bucket: an empty bucket"), HasSubstr("as in 25MB")));
  EXPECT_THAT(refusal(changed_plan(given, "all_reduce: {algorithm: ring}\n")),
              HasSubstr("all_reduce.algorithm: unknown key"));
}

TEST_F(PlanFile, TheShortestPlanByHand) {
  const Plan plan = read(
      "penstock: plan\nversion: 1\n"
      "job: {model: m.pt2, loss: mse, optimizer: {kind: sgd, learning_rate: 1}, global_batch: 4}\n"
      "schedule: gpipe\nmicrobatches: 2\nmicrobatch: 2\nstages:\n- {rank: 0, begin: \"\"}\n");
  EXPECT_EQ(plan.data_parallel, 1);
  EXPECT_EQ(plan.model_sha256, "");
  EXPECT_FALSE(plan.profile || plan.cluster || plan.prediction || plan.stages[0].recompute.any());
  const std::string written = to_yaml(plan, folder_.path() / "sub/copy.yaml");
  EXPECT_EQ(to_yaml(read(written), folder_.path() / "sub/copy.yaml"), written);
}

TEST_F(PlanFile, ABatchThatDoesNotDivideNamesWhatDoes) {
  EXPECT_THAT(
      refusal(changed_plan("microbatches: 8", "microbatches: 7")),
      AllOf(HasSubstr("plan.yaml:15: microbatches: global_batch 32 is not data_parallel 2 x "
                      "microbatches 7 x microbatch 2 = 28"),
            HasSubstr("`microbatches: 8` with `microbatch: 2`"), HasSubstr("`global_batch: 28`")));
  EXPECT_THAT(
      refusal(changed_plan("microbatch: 2", "microbatch: 4")),
      HasSubstr(
          "`microbatches: 8` with `microbatch: 2`, or `microbatches: 4` with `microbatch: 4`"));
  EXPECT_THAT(refusal(changed_plan("data_parallel: 2", "data_parallel: 3")),
              HasSubstr("`data_parallel: 2`, which divides the global batch"));
  EXPECT_THAT(refusal(changed_plan(
                  "microbatches: 8\nmicrobatch: 2\ndata_parallel: 2",
                  "microbatches: 1000000\nmicrobatch: 1000000000\ndata_parallel: 1000000")),
              HasSubstr("data_parallel"))
      << "a product beyond 64 bits";
}

TEST_F(PlanFile, MistakesAreRefusedWithPlaceValueAndCure) {
  struct Case {
    std::string text, place, problem, cure;
  };
  const Case cases[] = {
      {changed_plan("version: 1", "version: 2"), "plan.yaml:2: version", "version 2 is unknown",
       "reads version 1"},
      {changed_plan("version: 1\n", ""), "version", "missing", "Add"},
      {changed_plan("job:\n", "job:\n  penstock: job\n"), "plan.yaml:4: job.penstock",
       "unknown key", "Keys here"},
      {changed_plan("loss: mse", "loss: mae"), "plan.yaml:5: job.loss", "`mae`", "mse"},
      {changed_plan("model_sha256: a", "model_sha256: A"), "plan.yaml:11: model_sha256",
       "is not a SHA-256", "64"},
      {changed_plan("profile.json,", "profile.json, size: 3,"), "profile.size", "unknown key",
       "Keys here"},
      {changed_plan("schedule: 1f1b", "schedule: 1f1c"), "plan.yaml:14: schedule", "`1f1c`",
       "Did you mean 1f1b?"},
      {changed_plan("schedule: 1f1b", "shedule: 1f1b"), "schedule", "missing",
       "Is `shedule` a misspelling"},
      {changed_plan("schedule: 1f1b", "schedule: 1f1b\nprogram: p.csv"), "program", "not both",
       "Remove one"},
      {changed_plan("microbatches: 8", "microbatches: 0"), "microbatches",
       "`0` is not an integer in 1..", "Write"},
      {changed_plan("data_parallel: 2", "data_parallel: 1000000"), "data_parallel",
       "1000000 replicas of 2 ranks are more than 1048576", "as there are devices"},
      {changed_plan("microbatches: 8", "microbatches: 8.0"), "microbatches", "`8.0` is not",
       "Write"},
      {changed_plan("rank: 1, begin", "rank: 2, begin"), "plan.yaml:20: stages[1].rank",
       "`2` is not an integer in 0..1", "Write"},
      {changed_plan("rank: 0, begin", "rank: 1, begin"), "stages", "rank 0 has no stage",
       "0..0 without a gap"},
      {changed_plan("begin: \"\"", "begin: embed"), "stages", "stage 0 begins at `embed`",
       "begin: \"\""},
      {changed_plan("begin: \"\"", "begin:"), "plan.yaml:19: stages[0].begin",
       "nothing is not a text", "Write"},
      {changed_plan("begin: \"\", ", ""), "plan.yaml:19: stages[0].begin", "missing", "Add"},
      {changed_plan("begin: layers.4", "begin: layers.4, modules: [a]"), "stages[1].modules",
       "not both", "Keep"},
      {changed_plan("begin: layers.4", "modules: []"), "stages[1].modules", "the list is empty",
       "Name"},
      {changed_plan("schedule:", "devices: [0, 1]\nschedule:"), "devices", "2 devices for 4 ranks",
       "one for each rank of the run"},
      {changed_plan("schedule:", "devices: [0, 1, 2, 1]\nschedule:"), "devices",
       "device 1 is named twice", "its own"},
      {changed_plan("recompute: true", "recompute: some"), "stages[1].recompute",
       "`some` says not what to recompute", "Write"},
      {changed_plan("recompute: true", "recompute: 0"), "stages[1].recompute", "`0`", "1.."},
      {changed_plan("recompute: true", "recompute: \"true\""), "stages[1].recompute", "quot",
       "Write"},
      {changed_plan("recompute: true", "device: 1"), "stages[1].device", "unknown key",
       "Keys here are: rank"},
      {changed_plan("stages:", "tensor_parallel: 4\nsharding: {gathered: twice}\nstages:"),
       "sharding.gathered", "`twice` is not known", "Write kept"},
      {changed_plan("wte.weight: replicate", "wte.weight: copy"), "shared_parameters.wte.weight",
       "`copy` is no way to share a parameter", "Write replicate (each rank"},
      {changed_plan("bubble: 0.125", "bubble: x"), "prediction.bubble", "`x` is not a number",
       "Write"},
      {changed_plan("[100, 200]", "[100, -200]"), "prediction.peak_memory_bytes", "`-200` is not",
       "Write"},
      {plan_text + "stages: []\n", "plan.yaml:24", "`stages` is given twice, first in line 18",
       "Keep"},
      {changed_plan("stages:\n", "stages: &s\n"), "plan.yaml:18", "an anchor `&s`", "Remove"},
      {plan_text + "cluter: 1\n", "plan.yaml:24: cluter", "unknown key", "Did you mean cluster?"},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(refusal(each.text),
                AllOf(HasSubstr(each.place), HasSubstr(each.problem), HasSubstr(each.cure)));
  }
  EXPECT_THAT(refusal(plan_text.substr(0, plan_text.find("  - {rank: 0"))),
              HasSubstr("nothing where a list"));
}

// Whatever is in the file: it is read, or refused with a message that names the file.
TEST_F(PlanFile, ADamagedFileIsNeverMoreThanAnInputError) {
  int refused = 0;
  for (const std::string& text : damaged(plan_text, 600)) {
    std::string message;
    EXPECT_NO_THROW(message = refusal(text)) << text;
    if (message.empty()) continue;
    ++refused;
    EXPECT_THAT(message, HasSubstr("plan.yaml"));
  }
  EXPECT_GT(refused, 300) << "most damage shows";
}

}  // namespace
}  // namespace penstock
