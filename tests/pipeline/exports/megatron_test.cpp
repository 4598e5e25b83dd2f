// Plans for Megatron: what they say, and each thing that they cannot.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "pipeline/exports/exports.hpp"
#include "tests/pipeline/exports/support.hpp"
#include "tests/pipeline/tiny_model.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Plan interleaved(const std::vector<std::string>& begins, int ranks) {
  Plan plan = export_chain(begins, "interleaved-1f1b");
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    plan.stages[stage].rank = static_cast<int>(stage) % ranks;
  return plan;
}

TEST(Megatron, WritesALineOfArguments) {
  EXPECT_EQ(exported(to_megatron, export_chain({"", "layers.1", "layers.4"}), stack_of(6)),
            "--pipeline-model-parallel-size 3 --pipeline-model-parallel-layout 'Et|t*3|ttL' "
            "--num-layers 6 --micro-batch-size 2 --global-batch-size 48 "
            "--untie-embeddings-and-output-weights\n");
}

TEST(Megatron, DrawsEqualStagesTogether) {
  const Plan plan =
      interleaved({"", "layers.0", "layers.2", "layers.4", "layers.6", "layers.8"}, 2);
  EXPECT_THAT(exported(to_megatron, plan, stack_of(12)),
              HasSubstr("--pipeline-model-parallel-layout 'E|(tt|)*4t*4L' --num-layers 12"));
  EXPECT_THAT(exported(to_megatron, export_chain({"", "layers.1", "norm"}), stack_of(3)),
              HasSubstr("'Et|tt|L'"));
}

TEST(Megatron, SaysHowManyMicrobatchesFollowEachOther) {
  const std::vector<std::string> begins = {"", "layers.1", "layers.2", "layers.3"};
  EXPECT_THAT(exported(to_megatron, interleaved(begins, 2), stack_of(4)),
              Not(HasSubstr("microbatch-group")));  // 8 on 2 ranks: 2, Megatron's own choice
  Plan odd = interleaved(begins, 2);
  odd.microbatches = 3;
  odd.job.global_batch = 18;
  EXPECT_THAT(exported(to_megatron, odd, stack_of(4)),
              HasSubstr(" --microbatch-group-size-per-virtual-pipeline-stage 3 "));
}

TEST(Megatron, RecomputesChunksThatFitEveryStage) {
  Plan plan = export_chain({"", "layers.2"});
  for (StagePlan& stage : plan.stages) stage.recompute = {.whole = true};
  const std::string full = "--recompute-granularity full --recompute-method uniform ";
  EXPECT_THAT(exported(to_megatron, plan, stack_of(4)),
              HasSubstr(full + "--recompute-num-layers 2"));
  EXPECT_THAT(exported(to_megatron, plan, stack_of(5)),
              HasSubstr(full + "--recompute-num-layers 1"));
  plan.stages[1].recompute = {};
  EXPECT_THAT(export_refusal(to_megatron, plan, stack_of(4)),
              HasSubstr("with Megatron it is all stages or none"));
}

TEST(Megatron, TiesTheOutputToTheEmbeddingWhereTheModelDoes) {
  TinyModel tied, other;
  tied.add("a", {"embed"}, {}, "w").add("b", {"layers.0"}).add("c", {"layers.1"});
  EXPECT_THAT(exported(to_megatron, export_chain({"", "layers.1"}),
                       tied.add("d", {"head"}, {}, "w").graph()),
              Not(HasSubstr("untie")));
  other.add("a", {"embed"}).add("b", {"layers.0"}, {}, "w").add("c", {"layers.1"}, {}, "w");
  EXPECT_THAT(
      export_refusal(to_megatron, export_chain({"", "layers.1"}), other.add("d", {"head"}).graph()),
      HasSubstr("stages 0 and 1 share `w`"));
}

TEST(Megatron, ShardsTheStateOfTheOptimizer) {
  Plan plan = export_chain({"", "layers.1"});
  EXPECT_THAT(exported(to_megatron, plan, stack_of(4)), Not(HasSubstr("optimizer")));
  plan.optimizer_state = OptimizerState::sharded;
  EXPECT_THAT(exported(to_megatron, plan, stack_of(4)), HasSubstr(" --use-distributed-optimizer "));
}

/// Names and patterns, with a space between them.
std::string unlike(const ExportSource& source) {
  return fmt::format("{}", fmt::join(unlike_megatron(source), " "));
}

TEST(Megatron, HasTensorGroupsThatSplitColumnsRowsAndTheSequenceBetweenLayers) {
  Plan plan = grouped_chain({"", "layers.1"});
  EXPECT_THAT(exported(to_megatron, plan, residual_stack(3)),
              HasSubstr(" --tensor-model-parallel-size 2 --sequence-parallel --micro-batch-size"));
  EXPECT_EQ(exported(unlike, plan, residual_stack(3)), "");
  plan.sharding.values = {{"layers.?", sharding::Layout::identical()}};
  EXPECT_THAT(exported(to_megatron, plan, residual_stack(3)),
              HasSubstr(" --tensor-model-parallel-size 2 --micro-batch-size"));
  EXPECT_EQ(exported(unlike, plan, residual_stack(3)), "");
  EXPECT_THAT(exported(to_megatron, export_chain({"", "layers.1"}), residual_stack(3)),
              Not(HasSubstr("tensor-model-parallel")));
}

TEST(Megatron, NamesWhatItsTensorGroupsHoldOtherwise) {
  using sharding::Layout;
  const Graph model = residual_stack(3);
  Plan plan = grouped_chain({"", "layers.1"});
  plan.sharding.parameters[0].layout = Layout::split(1);
  plan.sharding.parameters[3].layout = Layout::split(1);
  EXPECT_EQ(exported(unlike, plan, model), "words.weight head.weight");
  plan = grouped_chain({"", "layers.1"});
  plan.sharding.parameters[1] = {"*.up.weight", Layout::split(1)};    // rows, and then columns,
  plan.sharding.parameters[2] = {"*.down.weight", Layout::split(0)};  // whose sums are handed on
  EXPECT_EQ(exported(unlike, plan, model),
            "layers.*.up.weight layers.*.down.weight add add_1 add_2");
  plan = grouped_chain({"", "layers.1"});
  plan.sharding.parameters[1] = {"layers.1.up.weight", Layout::identical()};
  plan.sharding.parameters[2] = {"layers.1.down.weight", Layout::identical()};
  plan.sharding.parameters.push_back({"*.up.weight", Layout::split(0)});
  plan.sharding.parameters.push_back({"*.down.weight", Layout::split(1)});
  EXPECT_EQ(exported(unlike, plan, model), "layers.1.up.weight layers.1.down.weight");
  plan = grouped_chain({"", "layers.1"});
  plan.sharding.values[0].layout = Layout::split(2);
  EXPECT_EQ(exported(unlike, plan, model), "add add_1 add_2");
  EXPECT_THAT(exported(to_megatron, plan, model), Not(HasSubstr("--sequence-parallel")));
}

TEST(Megatron, RefusesToTransmitTheEmbedding) {
  TinyModel tied;
  tied.add("a", {"embed"}, {}, "w").add("b", {"layers.0"}).add("c", {"layers.1"});
  Plan plan = export_chain({"", "layers.1"});
  plan.shared_parameters["w"] = "transmit";
  EXPECT_THAT(export_refusal(to_megatron, plan, tied.add("d", {"head"}, {}, "w").graph()),
              AllOf(HasSubstr("plan.yaml: shared_parameters.w: `transmit`"),
                    HasSubstr("with Megatron each stage that uses it updates a copy"),
                    HasSubstr("Write `replicate`")));
}

TEST(Megatron, RefusesCutsThatAreNotBetweenLayers) {
  EXPECT_THAT(
      export_refusal(to_megatron, export_chain({"", "layers.1", "layers.2.relu"}), stack_of(4)),
      AllOf(HasSubstr("plan.yaml: stages[2].begin: stage 2 begins at `layers.2.relu`, "
                      "inside `layers.2`; Megatron cuts before a layer, or after the last"),
            HasSubstr("Begin stage 2 at `layers.2` or `layers.3`.")));
  EXPECT_THAT(export_refusal(to_megatron, export_chain({"", "head"}), stack_of(4)),
              AllOf(HasSubstr("stage 1 begins at `head`, a module; Megatron cuts before"),
                    HasSubstr("Begin stage 1 at `norm`.")));
  TinyModel two;
  two.add("a", {"embed"}).add("b", {"position"}).add("c", {"layers.0"}).add("d", {"layers.1"});
  EXPECT_THAT(
      export_refusal(to_megatron, export_chain({"", "position"}), two.add("e", {"head"}).graph()),
      HasSubstr("Begin stage 1 at `layers.0`."));
}

TEST(Megatron, RefusesSchedulesOtherThan1F1B) {
  EXPECT_THAT(export_refusal(to_megatron, export_chain({"", "layers.1"}, "zb-h1"), stack_of(4)),
              AllOf(HasSubstr("plan.yaml: schedule: Megatron does not run schedule `zb-h1`"),
                    HasSubstr("It runs 1f1b and interleaved-1f1b")));
  Plan own = export_chain({"", "layers.1"});
  own.program = "own.csv";
  EXPECT_THAT(export_refusal(to_megatron, own, stack_of(4)),
              HasSubstr("plan.yaml: program: Megatron does not run a program of one's own"));
  EXPECT_THAT(
      export_refusal(to_megatron, export_chain({"", "layers.1"}, "interleaved-1f1b"), stack_of(4)),
      AllOf(HasSubstr("with one stage per rank Megatron runs 1f1b"),
            HasSubstr("Write `schedule: 1f1b`.")));
  Plan few = interleaved({"", "layers.1", "layers.2", "layers.3"}, 2);
  few.microbatches = 1;
  EXPECT_THAT(export_refusal(to_megatron, few, stack_of(4)),
              HasSubstr("Megatron does not interleave 1 microbatches on 2 ranks"));
}

TEST(Megatron, RefusesModelsThatAreNoStackOfLayers) {
  TinyModel none, two, bare, twice;
  none.add("a", {"first"}).add("b", {"second"});
  EXPECT_THAT(export_refusal(to_megatron, export_chain({"", "second"}), none.graph()),
              HasSubstr("tiny.pt2: Megatron counts the layers of a model"));
  two.add("a", {"encoder.0"}).add("b", {"encoder.1"}).add("c", {"decoder.0"});
  EXPECT_THAT(export_refusal(to_megatron, export_chain({"", "decoder.0"}),
                             two.add("d", {"decoder.1"}).graph()),
              HasSubstr("knows one stack of layers, and this model has `decoder`, `encoder`"));
  bare.add("a", {"layers.0"}).add("b", {"layers.1"});
  EXPECT_THAT(export_refusal(to_megatron, export_chain({"", "layers.1"}), bare.graph()),
              HasSubstr("nothing runs before `layers`"));
  twice.add("a", {"embed"}).add("b", {"layers.0"}).add("c", {"layers.1"}).add("d", {"layers.0@1"});
  EXPECT_THAT(
      export_refusal(to_megatron, export_chain({"", "layers.1"}), twice.add("e", {"head"}).graph()),
      HasSubstr("`layers.0` runs again after another"));
}

TEST(Megatron, RefusesWhatItsStagesDoNotHandOn) {
  TinyModel skip;
  skip.add("a", {"embed"}).add("b", {"layers.0"}).add("c", {"layers.1"}).add("d", {"head"}, {"a"});
  EXPECT_THAT(export_refusal(to_megatron, export_chain({"", "layers.1"}), skip.graph()),
              AllOf(HasSubstr("stage 0 hands 2 values to stage 1"), HasSubstr("with Megatron")));
}

}  // namespace
}  // namespace penstock
