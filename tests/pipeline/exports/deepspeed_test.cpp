// Plans for DeepSpeed: what they say, and each thing that they cannot.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "pipeline/exports/exports.hpp"
#include "tests/pipeline/exports/support.hpp"
#include "tests/pipeline/tiny_model.hpp"

namespace penstock {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DeepSpeed, ListsLayersPartsAndBatch) {
  const json file =
      json::parse(exported(to_deepspeed, export_chain({"", "layers.1", "norm"}), stack_of(3)));
  EXPECT_EQ(file, json::parse(R"({
    "layers": [["embed"], ["layers.0"], ["layers.1"], ["layers.2"], ["norm"], ["head"]],
    "parts": [0, 2, 4, 6],
    "num_stages": 3,
    "activation_checkpoint_interval": 0,
    "config": {"train_batch_size": 48, "train_micro_batch_size_per_gpu": 2,
               "gradient_accumulation_steps": 8}})"));
}

TEST(DeepSpeed, OneLayerHoldsWhatIsNoChain) {
  TinyModel model;  // a residual sum outside all modules: its terms stay together
  model.add("a", {"one"}).add("b", {"two"}).add("sum", {}, {"a"}).add("c", {"three"});
  const json file = json::parse(exported(to_deepspeed, export_chain({"", "three"}), model.graph()));
  EXPECT_EQ(file["layers"], json::parse(R"([["one"], ["two", "%sum"], ["three"]])"));
  EXPECT_EQ(file["parts"], json::parse("[0, 2, 3]"));
}

TEST(DeepSpeed, KeepsModulesThatReadTheirParametersAloneBesideWhatUsesThem) {
  const json file =
      json::parse(exported(to_deepspeed, export_chain({"", "layers.1"}), with_positions()));
  EXPECT_EQ(
      file["layers"],
      json::parse(R"([["tokens", "positions", "%add"], ["layers.0"], ["layers.1"], ["head"]])"));
  EXPECT_THAT(export_refusal(to_deepspeed, export_chain({"", "layers.1"}), with_positions(true)),
              AllOf(HasSubstr("what a layer before derives from its parameters is used"),
                    HasSubstr("Begin stage 1 at `head`.")));
}

TEST(DeepSpeed, RecomputesAStageAsOneStretch) {
  Plan plan = export_chain({"", "layers.1"});
  for (StagePlan& stage : plan.stages) stage.recompute = {.whole = true};
  const json file = json::parse(exported(to_deepspeed, plan, stack_of(4)));
  EXPECT_EQ(file["activation_checkpoint_interval"], 5);  // layers.1 to head
  plan.stages[0].recompute = {};
  EXPECT_THAT(export_refusal(to_deepspeed, plan, stack_of(4)),
              HasSubstr("with DeepSpeed it is all stages or"));
}

TEST(DeepSpeed, ShardsTheStateOfTheOptimizer) {
  Plan plan = export_chain({"", "layers.1"});
  plan.optimizer_state = OptimizerState::sharded;
  const json file = json::parse(exported(to_deepspeed, plan, stack_of(4)));
  EXPECT_EQ(file["config"]["zero_optimization"], json::parse(R"({"stage": 1})"));
}

TEST(DeepSpeed, RefusesSchedulesOtherThan1F1B) {
  EXPECT_THAT(export_refusal(to_deepspeed, export_chain({"", "layers.1"}, "gpipe"), stack_of(4)),
              AllOf(HasSubstr("plan.yaml: schedule: DeepSpeed does not run schedule `gpipe`"),
                    HasSubstr("It runs 1f1b; torch-csv")));
}

TEST(DeepSpeed, RefusesCutsThatAreNotBetweenLayers) {
  EXPECT_THAT(export_refusal(to_deepspeed, export_chain({"", "layers.2.relu"}), stack_of(4)),
              AllOf(HasSubstr("inside `layers.2`; DeepSpeed's layers are whole modules"),
                    HasSubstr("Begin stage 1 at `layers.2` or `layers.3`.")));
  TinyModel skip;
  skip.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}, {"a"}).add("d", {"four"});
  EXPECT_THAT(export_refusal(to_deepspeed, export_chain({"", "three"}), skip.graph()),
              AllOf(HasSubstr("stage 1 begins at `three`, a module; 2 values go there"),
                    HasSubstr("Begin stage 1 at `two` or `four`.")));
  EXPECT_THAT(export_refusal(to_deepspeed, export_chain({"", "three"}), branches()),
              HasSubstr("stage 1 begins at `three`, a module; 2 values go there"));
  TinyModel late;
  late.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}, {"x"});
  EXPECT_THAT(export_refusal(to_deepspeed, export_chain({"", "two"}), late.graph()),
              HasSubstr("an input of the model is read there or later"));
}

TEST(DeepSpeed, RefusesAParameterOfTwoStages) {
  TinyModel model;
  model.add("a", {"embed"}, {}, "w").add("b", {"head"}, {}, "w");
  EXPECT_THAT(export_refusal(to_deepspeed, export_chain({"", "head"}), model.graph()),
              HasSubstr("share `w`"));
}

TEST(DeepSpeed, RefusesAValueWithoutGradient) {
  Graph model = stack_of(2);
  model.values[static_cast<size_t>(model.operators[2].outputs[0])].dtype = DType::int64;  // relu_0
  EXPECT_THAT(
      export_refusal(to_deepspeed, export_chain({"", "layers.1"}), model),
      AllOf(HasSubstr("plan.yaml: stages[1].begin: stage 0 hands `relu_0` of int64 to stage 1"),
            HasSubstr("values have gradients")));
}

}  // namespace
}  // namespace penstock
