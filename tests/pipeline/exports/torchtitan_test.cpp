// Plans for TorchTitan: what they say, and each thing that they cannot.
#include <gmock/gmock.h>

#include "pipeline/exports/exports.hpp"
#include "tests/pipeline/exports/support.hpp"
#include "tests/pipeline/tiny_model.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string titan(const ExportSource& source) { return to_torchtitan(source, "/plans/own.csv"); }

TEST(TorchTitan, KeepsModulesThatReadTheirParametersAlone) {
  EXPECT_THAT(exported(titan, export_chain({"", "layers.1"}), with_positions()),
              HasSubstr("[\"tokens\", \"positions\", \"layers.0\"],\n"
                        "  [\"layers.1\", \"head\"],"));
}

TEST(TorchTitan, NamesModulesScheduleDegreesAndBatch) {
  EXPECT_EQ(exported(titan, export_chain({"", "layers.1", "layers.3"}), stack_of(4)),
            R"([parallelism]
pipeline_parallel_degree = 3
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_microbatch_size = 2
data_parallel_replicate_degree = 3
data_parallel_shard_degree = 1
module_fqns_per_model_part = [
  ["embed", "layers.0"],
  ["layers.1", "layers.2"],
  ["layers.3", "norm", "head"],
]

[training]
local_batch_size = 16
global_batch_size = 48

[activation_checkpoint]
mode = "none"
)");
}

TEST(TorchTitan, AddsUpMicrobatchesWhereThereIsNoPipeline) {
  EXPECT_THAT(exported(titan, export_chain({""}), stack_of(4)),
              AllOf(HasSubstr("local_batch_size = 2\n"), HasSubstr("global_batch_size = 48\n")));
}

TEST(TorchTitan, ShardsTheStateOfTheOptimizerWithTheParameters) {
  Plan plan = export_chain({"", "layers.1"});
  plan.optimizer_state = OptimizerState::sharded;
  EXPECT_THAT(exported(titan, plan, stack_of(4)),
              AllOf(HasSubstr("data_parallel_replicate_degree = 1\n"
                              "data_parallel_shard_degree = 3\n"
                              "fsdp_reshard_after_forward = \"never\"\n"),
                    HasSubstr("# TorchTitan shards the optimizer's state with the parameters")));
}

TEST(TorchTitan, SaysTheDegreeOfTensorGroupsAndInCommentsWhatTheySplit) {
  Plan plan = grouped_chain({"", "layers.1"});
  EXPECT_THAT(exported(titan, plan, residual_stack(3)),
              HasSubstr("#   words.weight: Shard(0)\n"
                        "#   layers.*.up.weight: Shard(0)\n"
                        "#   head.weight: Shard(0)\n"
                        "#   layers.*.down.weight: Shard(1)\n"
                        "# Between stages values are in Shard(1).\n"
                        "tensor_parallel_degree = 2\n"
                        "disable_loss_parallel = true\n"));
  plan.sharding.parameters[1].layout = sharding::Layout::split(0, 2);
  plan.sharding.values[0].layout = sharding::Layout::identical();
  EXPECT_THAT(exported(titan, plan, residual_stack(3)),
              AllOf(HasSubstr("#   layers.*.up.weight: Shard(0) of each of 2 blocks\n"),
                    HasSubstr("# Between stages values are in Replicate().\n")));
}

TEST(TorchTitan, ScheduleFilesStandForWhatTorchHasNot) {
  const auto uses_file = HasSubstr(
      "pipeline_parallel_schedule = \"PipelineScheduleMulti\"\n"
      "pipeline_parallel_schedule_csv = \"/plans/own.csv\"\n");
  EXPECT_THAT(exported(titan, export_chain({"", "layers.1"}, "zb-h1"), stack_of(4)), uses_file);
  Plan few = export_chain({"", "layers.1"});
  few.microbatches = 1;  // torch's 1F1B wants one for each stage
  EXPECT_THAT(exported(titan, few, stack_of(4)), uses_file);
  few.schedule = "interleaved-1f1b";
  EXPECT_THAT(exported(titan, few, stack_of(4)),
              HasSubstr("pipeline_parallel_schedule = \"Interleaved1F1B\"\n"));
  Plan own = export_chain({"", "layers.1"});
  own.program = "own.csv";
  EXPECT_THAT(exported(titan, own, stack_of(4)), uses_file);
}

TEST(TorchTitan, RecomputationIsOfAllStagesOrNone) {
  Plan plan = export_chain({"", "layers.1"});
  plan.stages[0].recompute = plan.stages[1].recompute = {.whole = true};
  EXPECT_THAT(exported(titan, plan, stack_of(2)), HasSubstr("mode = \"full\""));
  plan.stages[1].recompute = {};
  EXPECT_THAT(export_refusal(titan, plan, stack_of(2)),
              AllOf(HasSubstr("plan.yaml: stages[1].recompute: stage 1 does not recompute and "
                              "stage 0 does, and with TorchTitan it is all stages or none"),
                    HasSubstr("Give all stages `recompute: true`, or all `false`.")));
}

TEST(TorchTitan, RecomputationIsOfWholeStages) {
  Plan plan = export_chain({"", "layers.1"});
  plan.stages[0].recompute = plan.stages[1].recompute = {.first_units = 1};
  EXPECT_THAT(export_refusal(titan, plan, stack_of(2)),
              HasSubstr("plan.yaml: stages[0].recompute: stage 0 recomputes some of its units, "
                        "and with TorchTitan it is all or nothing"));
}

TEST(TorchTitan, RefusesACutInsideAModule) {
  EXPECT_THAT(export_refusal(titan, export_chain({"", "layers.2.relu"}), stack_of(4)),
              AllOf(HasSubstr("plan.yaml: stages[1].begin: stage 1 begins at `layers.2.relu`, "
                              "inside `layers.2`; TorchTitan gives a stage whole modules"),
                    HasSubstr("Begin stage 1 at `layers.2` or `layers.3`.")));
}

TEST(TorchTitan, RefusesModulesThatItDoesNotFind) {
  TinyModel model;
  model.add("a", {"model.layers.0"}).add("b", {"model.layers.1"});
  EXPECT_THAT(export_refusal(titan, export_chain({"", "model.layers.1"}), model.graph()),
              HasSubstr("tiny.pt2: `model.layers.0` lies too deep"));
}

TEST(TorchTitan, RefusesAModuleOfTwoStages) {
  TinyModel model;
  model.add("a", {"block"}).add("b", {"block@1"});
  EXPECT_THAT(export_refusal(titan, export_chain({"", "block@1"}), model.graph()),
              AllOf(HasSubstr("`block` is called in stages 0 and 1; TorchTitan would give each a "
                              "copy of its own"),
                    HasSubstr("Keep its calls in one stage.")));
}

TEST(TorchTitan, RefusesAParameterOfTwoStages) {
  TinyModel model;
  model.add("a", {"embed"}, {}, "w").add("b", {"head"}, {}, "w");
  EXPECT_THAT(export_refusal(titan, export_chain({"", "head"}), model.graph()),
              HasSubstr("share `w`"));
}

TEST(TorchTitan, RefusesWhatItsStagesDoNotHandOn) {
  EXPECT_THAT(export_refusal(titan, export_chain({"", "three"}), branches()),
              AllOf(HasSubstr("stage 0 hands 2 values to stage 1 (`linear`, `linear_1`)"),
                    HasSubstr("with TorchTitan it is one")));
  TinyModel skip;
  skip.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}, {"a"});
  EXPECT_THAT(export_refusal(titan, export_chain({"", "two", "three"}), skip.graph()),
              HasSubstr("stages[2].begin: stage 2 uses `a` of stage 0, and with TorchTitan a stage "
                        "hands on to the next alone"));
}

TEST(TorchTitan, PlacesTheStagesOfAScheduleFileInTurn) {
  Plan plan = export_plan({{0, ""}, {1, "layers.1"}, {1, "layers.2"}, {0, "layers.3"}});
  plan.program = "own.csv";
  EXPECT_THAT(export_refusal(titan, plan, stack_of(4)),
              AllOf(HasSubstr("plan.yaml: stages[2].rank: stage 2 is on rank 1"),
                    HasSubstr("TorchTitan places it on rank 0")));
  plan.program.clear();
  plan.schedule = "zbv";  // torch has it, and its placement
  EXPECT_THAT(exported(titan, plan, stack_of(4)), HasSubstr("\"ZBVZeroBubble\""));
  Plan odd = export_plan({{0, ""}, {1, "layers.1"}, {0, "layers.2"}});
  odd.program = "own.csv";
  EXPECT_THAT(export_refusal(titan, odd, stack_of(4)), HasSubstr("not 3 on 2 ranks"));
}

TEST(TorchTitan, RefusesAValueWithoutGradient) {
  Graph model = stack_of(2);
  model.values[static_cast<size_t>(model.operators[2].outputs[0])].dtype = DType::int64;  // relu_0
  EXPECT_THAT(
      export_refusal(titan, export_chain({"", "layers.1"}), model),
      AllOf(HasSubstr("plan.yaml: stages[1].begin: stage 0 hands `relu_0` of int64 to stage 1"),
            HasSubstr("values have gradients")));
}

}  // namespace
}  // namespace penstock
