// Plans for other tools: what each format says, and each thing that it cannot.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "pipeline/exports/exports.hpp"
#include "tests/graph/build_graph.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/pipeline/tiny_model.hpp"

namespace penstock {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Plan plan_of(std::vector<StagePlan> stages, const std::string& schedule = "1f1b") {
  Plan plan;
  plan.path = "plan.yaml";
  plan.schedule = schedule;
  plan.microbatches = 8;
  plan.microbatch = 2;
  plan.data_parallel = 3;
  plan.job.global_batch = 48;
  plan.stages = std::move(stages);
  return plan;
}

using Export = std::string (*)(const ExportSource&);

std::string exported(Export write, const Plan& plan, const Graph& model) {
  const Analysis analysis = analyse(model);
  const Slicing slicing = slice(plan, model, analysis);
  return write({plan, model, analysis, slicing});
}

std::string refusal(Export write, const Plan& plan, const Graph& model) {
  return input_error([&] { exported(write, plan, model); });
}

std::string titan(const ExportSource& source) { return to_torchtitan(source, "/plans/own.csv"); }

/// `embed`, `layers.0` … (each `linear` and `relu`), `norm`, `head`.
Graph model_of(int layers) {
  TinyModel model;
  model.add("embedding", {"embed"});
  for (int i = 0; i < layers; ++i) {
    const std::string path = "layers." + std::to_string(i), number = std::to_string(i);
    model.add("linear_" + number, {path, path + ".linear"});
    model.add("relu_" + number, {path, path + ".relu"});
  }
  return model.add("normed", {"norm"}).add("logits", {"head"}).graph();
}

/// One rank per stage.
Plan chain(const std::vector<std::string>& begins, const std::string& schedule = "1f1b") {
  std::vector<StagePlan> stages;
  stages.reserve(begins.size());
  for (const std::string& begin : begins)
    stages.push_back({static_cast<int>(stages.size()), begin});
  return plan_of(std::move(stages), schedule);
}

// torch: split points

TEST(TorchSplit, NamesTheModuleWithWhichEachStageButTheFirstBegins) {
  const std::string text =
      exported(to_torch_split, chain({"", "layers.1", "relu_2", "norm"}), model_of(4));
  EXPECT_EQ(text,
            "{\n  \"layers.1\": \"BEGINNING\",\n  \"layers.2.relu\": \"BEGINNING\",\n"
            "  \"norm\": \"BEGINNING\"\n}\n");
}

TEST(TorchSplit, OneStageHasNoSplitPoint) {
  EXPECT_EQ(exported(to_torch_split, chain({""}), model_of(2)), "{}\n");
}

TEST(TorchSplit, RefusesACutWhereNoModuleBegins) {
  TinyModel model;
  model.add("a", {"first"}).add("sum", {}).add("b", {"second"}).add("c", {"third"});
  EXPECT_THAT(refusal(to_torch_split, chain({"", "sum"}), model.graph()),
              AllOf(HasSubstr("plan.yaml: stages[1].begin: stage 1 begins at `sum`, an operator "
                              "outside all modules; torch splits where a module begins"),
                    HasSubstr("Begin stage 1 at `second`.")));
}

TEST(TorchSplit, RefusesOneCallOfSeveral) {
  TinyModel model;
  model.add("a", {"block"}).add("b", {"block@1"}).add("c", {"head"});
  EXPECT_THAT(refusal(to_torch_split, chain({"", "block@1"}), model.graph()),
              AllOf(HasSubstr("stage 1 begins at `block@1`, a module that is called several times"),
                    HasSubstr("Begin stage 1 at `head`.")));
}

TEST(TorchSplit, RefusesAParameterOfTwoStages) {
  TinyModel model;
  model.add("a", {"embed"}, {}, "w").add("b", {"middle"}).add("c", {"head"}, {}, "w");
  EXPECT_THAT(refusal(to_torch_split, chain({"", "head"}), model.graph()),
              AllOf(HasSubstr("stages 0 and 1 share `w`"), HasSubstr("penstock execute")));
}

TEST(TorchSplit, RefusesRecomputation) {
  Plan plan = chain({"", "layers.1"});
  plan.stages[1].recompute = true;
  EXPECT_THAT(
      refusal(to_torch_split, plan, model_of(2)),
      AllOf(HasSubstr("plan.yaml: stages[1].recompute: stage 1 recomputes, and torch's split "
                      "points do not say so"),
            HasSubstr("torch.utils.checkpoint")));
}

TEST(TorchSplit, RefusesAnInputThatALaterStageReads) {
  TinyModel model;
  model.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}, {"x"});
  EXPECT_THAT(refusal(to_torch_split, chain({"", "two"}), model.graph()),
              HasSubstr("plan.yaml: stages[1].begin: stage 1 reads `x`, an input of the model, "
                        "which torch gives to stage 0 alone"));
}

TEST(TorchSplit, CountsConstantsThatTorchSendsAmongTheValues) {
  testing::GraphBuilder b;  // a counter that both stages read; for us each computes it
  const testing::Shape shape = {testing::batch, 4};
  const ValueId x = b.input("x", shape);
  const ValueId counter = b.op("aten::arange", {}, {4});
  ValueId h = b.op("aten::linear", {x, b.parameter("one.w", {4, 4}), counter}, shape, {"one"});
  h = b.op("aten::linear", {h, b.parameter("two.w", {4, 4}), counter}, shape, {"two"});
  b.output(h);
  EXPECT_EQ(refusal(to_torch_split, chain({"", "two"}), b.graph), "");
  b.graph.values[static_cast<size_t>(counter)].dtype = DType::int64;
  EXPECT_THAT(refusal(to_torch_split, chain({"", "two"}), b.graph),
              HasSubstr("stage 1 reads `arange`, int64 of stage 0"));
}

TEST(Exports, ValuesBetweenStagesAreOfFloatingPoint) {
  Graph model = model_of(2);
  model.values[static_cast<size_t>(model.operators[2].outputs[0])].dtype = DType::int64;  // relu_0
  EXPECT_THAT(
      refusal(to_torch_split, chain({"", "layers.1"}), model),
      HasSubstr("plan.yaml: stages[1].begin: stage 1 reads `relu_0`, int64 of stage 0; torch "
                "sends floating point alone"));
  for (const Export write : {&titan, &to_deepspeed}) {
    EXPECT_THAT(
        refusal(write, chain({"", "layers.1"}), model),
        AllOf(HasSubstr("plan.yaml: stages[1].begin: stage 0 hands `relu_0` of int64 to stage 1"),
              HasSubstr("values have gradients")));
  }
}

TEST(TorchSplit, RefusesASkipConnectionWhereARankHasSeveralStages) {
  TinyModel model;
  model.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}).add("d", {"four"}, {"a"});
  Plan plan = chain({"", "two", "three", "four"});
  EXPECT_EQ(json::parse(exported(to_torch_split, plan, model.graph())).size(), 3);
  for (size_t stage = 0; stage < 4; ++stage) plan.stages[stage].rank = static_cast<int>(stage) % 2;
  EXPECT_THAT(refusal(to_torch_split, plan, model.graph()),
              HasSubstr("plan.yaml: stages[3].begin: stage 3 reads `a`, of stage 0; with several "
                        "stages on a rank torch sends to the next alone"));
}

/// Two branches that meet: `one`, `two`, `three` (after `one`), `four` (after `two` and `three`).
Graph branches() {
  testing::GraphBuilder b;
  const ValueId x = b.input("x", {testing::batch, 4});
  const auto layer = [&](std::vector<ValueId> reads, const std::string& module) {
    reads.push_back(b.parameter(module + ".w", {4, 4}));
    return b.op("aten::linear", reads, {testing::batch, 4}, {module});
  };
  const ValueId one = layer({x}, "one"), two = layer({x}, "two"), three = layer({one}, "three");
  b.output(layer({two, three}, "four"));
  return b.graph;
}

TEST(TorchSplit, RefusesAStageThatIsNoStretchOfTheModel) {
  const Plan plan = plan_of({{0, "", {"one", "three"}}, {1, "", {"two", "four"}}});
  EXPECT_THAT(refusal(to_torch_split, plan, branches()),
              AllOf(HasSubstr("plan.yaml: stages[0].modules: stage 0 is not one stretch"),
                    HasSubstr("Give every stage a `begin`")));
}

/// `tokens`, `positions`, which reads its weight alone, their sum, `layers.0`, `layers.1`, `head`;
/// `layers.1` may be given the positions as well.
Graph with_positions(bool late = false) {
  testing::GraphBuilder b;
  const testing::Shape shape = {testing::batch, 4};
  const ValueId x = b.input("x", shape);
  const auto weight = [&](const std::string& module) { return b.parameter(module + ".w", {4, 4}); };
  ValueId h = b.op("aten::linear", {x, weight("tokens")}, shape, {"tokens"});
  const ValueId positions = b.op("aten::t", {weight("positions")}, {4, 4}, {"positions"});
  h = b.op("aten::add", {h, positions}, shape);
  h = b.op("aten::linear", {h, weight("layers.0")}, shape, {"layers.0"});
  std::vector<ValueId> reads = {h, weight("layers.1")};
  if (late) reads.push_back(positions);
  h = b.op("aten::linear", reads, shape, {"layers.1"});
  b.output(b.op("aten::linear", {h, weight("head")}, shape, {"head"}));
  return b.graph;
}

// TorchTitan

TEST(TorchTitan, KeepsModulesThatReadTheirParametersAlone) {
  EXPECT_THAT(exported(titan, chain({"", "layers.1"}), with_positions()),
              HasSubstr("[\"tokens\", \"positions\", \"layers.0\"],\n"
                        "  [\"layers.1\", \"head\"],"));
}

TEST(TorchTitan, NamesModulesScheduleDegreesAndBatch) {
  EXPECT_EQ(exported(titan, chain({"", "layers.1", "layers.3"}), model_of(4)),
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

TEST(TorchTitan, ScheduleFilesStandForWhatTorchHasNot) {
  const auto uses_file = HasSubstr(
      "pipeline_parallel_schedule = \"PipelineScheduleMulti\"\n"
      "pipeline_parallel_schedule_csv = \"/plans/own.csv\"\n");
  EXPECT_THAT(exported(titan, chain({"", "layers.1"}, "zb-h1"), model_of(4)), uses_file);
  Plan few = chain({"", "layers.1"});
  few.microbatches = 1;  // torch's 1F1B wants one for each stage
  EXPECT_THAT(exported(titan, few, model_of(4)), uses_file);
  few.schedule = "interleaved-1f1b";
  EXPECT_THAT(exported(titan, few, model_of(4)),
              HasSubstr("pipeline_parallel_schedule = \"Interleaved1F1B\"\n"));
  Plan own = chain({"", "layers.1"});
  own.program = "own.csv";
  EXPECT_THAT(exported(titan, own, model_of(4)), uses_file);
}

TEST(TorchTitan, RecomputationIsOfAllStagesOrNone) {
  Plan plan = chain({"", "layers.1"});
  plan.stages[0].recompute = plan.stages[1].recompute = true;
  EXPECT_THAT(exported(titan, plan, model_of(2)), HasSubstr("mode = \"full\""));
  plan.stages[1].recompute = false;
  EXPECT_THAT(refusal(titan, plan, model_of(2)),
              AllOf(HasSubstr("plan.yaml: stages[1].recompute: stage 1 does not recompute and "
                              "stage 0 does, and with TorchTitan it is all or none"),
                    HasSubstr("Give all stages the same")));
}

TEST(TorchTitan, RefusesACutInsideAModule) {
  EXPECT_THAT(refusal(titan, chain({"", "layers.2.relu"}), model_of(4)),
              AllOf(HasSubstr("plan.yaml: stages[1].begin: stage 1 begins at `layers.2.relu`, "
                              "inside `layers.2`; TorchTitan gives a stage whole modules"),
                    HasSubstr("Begin stage 1 at `layers.2` or `layers.3`.")));
}

TEST(TorchTitan, RefusesModulesThatItDoesNotFind) {
  TinyModel model;
  model.add("a", {"model.layers.0"}).add("b", {"model.layers.1"});
  EXPECT_THAT(refusal(titan, chain({"", "model.layers.1"}), model.graph()),
              HasSubstr("tiny.pt2: `model.layers.0` lies too deep"));
}

TEST(TorchTitan, RefusesAModuleOfTwoStages) {
  TinyModel model;
  model.add("a", {"block"}).add("b", {"block@1"});
  EXPECT_THAT(refusal(titan, chain({"", "block@1"}), model.graph()),
              AllOf(HasSubstr("`block` is called in stages 0 and 1; TorchTitan would give each a "
                              "copy of its own"),
                    HasSubstr("Keep its calls in one stage.")));
}

TEST(TorchTitan, RefusesAParameterOfTwoStages) {
  TinyModel model;
  model.add("a", {"embed"}, {}, "w").add("b", {"head"}, {}, "w");
  EXPECT_THAT(refusal(titan, chain({"", "head"}), model.graph()), HasSubstr("share `w`"));
}

TEST(TorchTitan, RefusesWhatItsStagesDoNotHandOn) {
  EXPECT_THAT(refusal(titan, chain({"", "three"}), branches()),
              AllOf(HasSubstr("stage 0 hands 2 values to stage 1 (`linear`, `linear_1`)"),
                    HasSubstr("with TorchTitan it is one")));
  TinyModel skip;
  skip.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}, {"a"});
  EXPECT_THAT(refusal(titan, chain({"", "two", "three"}), skip.graph()),
              HasSubstr("stages[2].begin: stage 2 uses `a` of stage 0, and with TorchTitan a stage "
                        "hands on to the next alone"));
}

TEST(TorchTitan, PlacesTheStagesOfAScheduleFileInTurn) {
  Plan plan = plan_of({{0, ""}, {1, "layers.1"}, {1, "layers.2"}, {0, "layers.3"}});
  plan.program = "own.csv";
  EXPECT_THAT(refusal(titan, plan, model_of(4)),
              AllOf(HasSubstr("plan.yaml: stages[2].rank: stage 2 is on rank 1"),
                    HasSubstr("TorchTitan places it on rank 0")));
  plan.program.clear();
  plan.schedule = "zbv";  // torch has it, and its placement
  EXPECT_THAT(exported(titan, plan, model_of(4)), HasSubstr("\"ZBVZeroBubble\""));
  Plan odd = plan_of({{0, ""}, {1, "layers.1"}, {0, "layers.2"}});
  odd.program = "own.csv";
  EXPECT_THAT(refusal(titan, odd, model_of(4)), HasSubstr("not 3 on 2 ranks"));
}

// Megatron

Plan interleaved(const std::vector<std::string>& begins, int ranks) {
  Plan plan = chain(begins, "interleaved-1f1b");
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    plan.stages[stage].rank = static_cast<int>(stage) % ranks;
  return plan;
}

TEST(Megatron, WritesALineOfArguments) {
  EXPECT_EQ(exported(to_megatron, chain({"", "layers.1", "layers.4"}), model_of(6)),
            "--pipeline-model-parallel-size 3 --pipeline-model-parallel-layout 'Et|t*3|ttL' "
            "--num-layers 6 --micro-batch-size 2 --global-batch-size 48 "
            "--untie-embeddings-and-output-weights\n");
}

TEST(Megatron, DrawsEqualStagesTogether) {
  const Plan plan =
      interleaved({"", "layers.0", "layers.2", "layers.4", "layers.6", "layers.8"}, 2);
  EXPECT_THAT(exported(to_megatron, plan, model_of(12)),
              HasSubstr("--pipeline-model-parallel-layout 'E|(tt|)*4t*4L' --num-layers 12"));
  EXPECT_THAT(exported(to_megatron, chain({"", "layers.1", "norm"}), model_of(3)),
              HasSubstr("'Et|tt|L'"));
}

TEST(Megatron, SaysHowManyMicrobatchesFollowEachOther) {
  const std::vector<std::string> begins = {"", "layers.1", "layers.2", "layers.3"};
  EXPECT_THAT(exported(to_megatron, interleaved(begins, 2), model_of(4)),
              Not(HasSubstr("microbatch-group")));  // 8 on 2 ranks: 2, Megatron's own choice
  Plan odd = interleaved(begins, 2);
  odd.microbatches = 3;
  odd.job.global_batch = 18;
  EXPECT_THAT(exported(to_megatron, odd, model_of(4)),
              HasSubstr(" --microbatch-group-size-per-virtual-pipeline-stage 3 "));
}

TEST(Megatron, RecomputesChunksThatFitEveryStage) {
  Plan plan = chain({"", "layers.2"});
  for (StagePlan& stage : plan.stages) stage.recompute = true;
  const std::string full = "--recompute-granularity full --recompute-method uniform ";
  EXPECT_THAT(exported(to_megatron, plan, model_of(4)),
              HasSubstr(full + "--recompute-num-layers 2"));
  EXPECT_THAT(exported(to_megatron, plan, model_of(5)),
              HasSubstr(full + "--recompute-num-layers 1"));
  plan.stages[1].recompute = false;
  EXPECT_THAT(refusal(to_megatron, plan, model_of(4)),
              HasSubstr("with Megatron it is all or none"));
}

TEST(Megatron, TiesTheOutputToTheEmbeddingWhereTheModelDoes) {
  TinyModel tied, other;
  tied.add("a", {"embed"}, {}, "w").add("b", {"layers.0"}).add("c", {"layers.1"});
  EXPECT_THAT(
      exported(to_megatron, chain({"", "layers.1"}), tied.add("d", {"head"}, {}, "w").graph()),
      Not(HasSubstr("untie")));
  other.add("a", {"embed"}).add("b", {"layers.0"}, {}, "w").add("c", {"layers.1"}, {}, "w");
  EXPECT_THAT(refusal(to_megatron, chain({"", "layers.1"}), other.add("d", {"head"}).graph()),
              HasSubstr("stages 0 and 1 share `w`"));
}

TEST(Megatron, RefusesCutsThatAreNotBetweenLayers) {
  EXPECT_THAT(refusal(to_megatron, chain({"", "layers.1", "layers.2.relu"}), model_of(4)),
              AllOf(HasSubstr("plan.yaml: stages[2].begin: stage 2 begins at `layers.2.relu`, "
                              "inside `layers.2`; Megatron cuts before a layer, or after the last"),
                    HasSubstr("Begin stage 2 at `layers.2` or `layers.3`.")));
  EXPECT_THAT(refusal(to_megatron, chain({"", "head"}), model_of(4)),
              AllOf(HasSubstr("stage 1 begins at `head`, a module; Megatron cuts before"),
                    HasSubstr("Begin stage 1 at `norm`.")));
  TinyModel two;
  two.add("a", {"embed"}).add("b", {"position"}).add("c", {"layers.0"}).add("d", {"layers.1"});
  EXPECT_THAT(refusal(to_megatron, chain({"", "position"}), two.add("e", {"head"}).graph()),
              HasSubstr("Begin stage 1 at `layers.0`."));
}

TEST(Megatron, RefusesSchedulesOtherThan1F1B) {
  EXPECT_THAT(refusal(to_megatron, chain({"", "layers.1"}, "zb-h1"), model_of(4)),
              AllOf(HasSubstr("plan.yaml: schedule: Megatron does not run schedule `zb-h1`"),
                    HasSubstr("It runs 1f1b and interleaved-1f1b")));
  Plan own = chain({"", "layers.1"});
  own.program = "own.csv";
  EXPECT_THAT(refusal(to_megatron, own, model_of(4)),
              HasSubstr("plan.yaml: program: Megatron does not run a program of one's own"));
  EXPECT_THAT(refusal(to_megatron, chain({"", "layers.1"}, "interleaved-1f1b"), model_of(4)),
              AllOf(HasSubstr("with one stage per rank Megatron runs 1f1b"),
                    HasSubstr("Write `schedule: 1f1b`.")));
  Plan few = interleaved({"", "layers.1", "layers.2", "layers.3"}, 2);
  few.microbatches = 1;
  EXPECT_THAT(refusal(to_megatron, few, model_of(4)),
              HasSubstr("Megatron does not interleave 1 microbatches on 2 ranks"));
}

TEST(Megatron, RefusesModelsThatAreNoStackOfLayers) {
  TinyModel none, two, bare, twice;
  none.add("a", {"first"}).add("b", {"second"});
  EXPECT_THAT(refusal(to_megatron, chain({"", "second"}), none.graph()),
              HasSubstr("tiny.pt2: Megatron counts the layers of a model"));
  two.add("a", {"encoder.0"}).add("b", {"encoder.1"}).add("c", {"decoder.0"});
  EXPECT_THAT(refusal(to_megatron, chain({"", "decoder.0"}), two.add("d", {"decoder.1"}).graph()),
              HasSubstr("knows one stack of layers, and this model has `decoder`, `encoder`"));
  bare.add("a", {"layers.0"}).add("b", {"layers.1"});
  EXPECT_THAT(refusal(to_megatron, chain({"", "layers.1"}), bare.graph()),
              HasSubstr("nothing runs before `layers`"));
  twice.add("a", {"embed"}).add("b", {"layers.0"}).add("c", {"layers.1"}).add("d", {"layers.0@1"});
  EXPECT_THAT(refusal(to_megatron, chain({"", "layers.1"}), twice.add("e", {"head"}).graph()),
              HasSubstr("`layers.0` runs again after another"));
}

TEST(Megatron, RefusesWhatItsStagesDoNotHandOn) {
  TinyModel skip;
  skip.add("a", {"embed"}).add("b", {"layers.0"}).add("c", {"layers.1"}).add("d", {"head"}, {"a"});
  EXPECT_THAT(refusal(to_megatron, chain({"", "layers.1"}), skip.graph()),
              AllOf(HasSubstr("stage 0 hands 2 values to stage 1"), HasSubstr("with Megatron")));
}

// DeepSpeed

TEST(DeepSpeed, ListsLayersPartsAndBatch) {
  const json file =
      json::parse(exported(to_deepspeed, chain({"", "layers.1", "norm"}), model_of(3)));
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
  const json file = json::parse(exported(to_deepspeed, chain({"", "three"}), model.graph()));
  EXPECT_EQ(file["layers"], json::parse(R"([["one"], ["two", "%sum"], ["three"]])"));
  EXPECT_EQ(file["parts"], json::parse("[0, 2, 3]"));
}

TEST(DeepSpeed, KeepsModulesThatReadTheirParametersAloneBesideWhatUsesThem) {
  const json file = json::parse(exported(to_deepspeed, chain({"", "layers.1"}), with_positions()));
  EXPECT_EQ(
      file["layers"],
      json::parse(R"([["tokens", "positions", "%add"], ["layers.0"], ["layers.1"], ["head"]])"));
  EXPECT_THAT(refusal(to_deepspeed, chain({"", "layers.1"}), with_positions(true)),
              AllOf(HasSubstr("what a layer before derives from its parameters is used"),
                    HasSubstr("Begin stage 1 at `head`.")));
}

TEST(DeepSpeed, RecomputesAStageAsOneStretch) {
  Plan plan = chain({"", "layers.1"});
  for (StagePlan& stage : plan.stages) stage.recompute = true;
  const json file = json::parse(exported(to_deepspeed, plan, model_of(4)));
  EXPECT_EQ(file["activation_checkpoint_interval"], 5);  // layers.1 to head
  plan.stages[0].recompute = false;
  EXPECT_THAT(refusal(to_deepspeed, plan, model_of(4)), HasSubstr("with DeepSpeed it is all or"));
}

TEST(DeepSpeed, RefusesSchedulesOtherThan1F1B) {
  EXPECT_THAT(refusal(to_deepspeed, chain({"", "layers.1"}, "gpipe"), model_of(4)),
              AllOf(HasSubstr("plan.yaml: schedule: DeepSpeed does not run schedule `gpipe`"),
                    HasSubstr("It runs 1f1b; torch-csv")));
}

TEST(DeepSpeed, RefusesCutsThatAreNotBetweenLayers) {
  EXPECT_THAT(refusal(to_deepspeed, chain({"", "layers.2.relu"}), model_of(4)),
              AllOf(HasSubstr("inside `layers.2`; DeepSpeed's layers are whole modules"),
                    HasSubstr("Begin stage 1 at `layers.2` or `layers.3`.")));
  TinyModel skip;
  skip.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}, {"a"}).add("d", {"four"});
  EXPECT_THAT(refusal(to_deepspeed, chain({"", "three"}), skip.graph()),
              AllOf(HasSubstr("stage 1 begins at `three`, a module; 2 values go there"),
                    HasSubstr("Begin stage 1 at `two` or `four`.")));
  EXPECT_THAT(refusal(to_deepspeed, chain({"", "three"}), branches()),
              HasSubstr("stage 1 begins at `three`, a module; 2 values go there"));
  TinyModel late;
  late.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}, {"x"});
  EXPECT_THAT(refusal(to_deepspeed, chain({"", "two"}), late.graph()),
              HasSubstr("an input of the model is read there or later"));
}

TEST(DeepSpeed, RefusesAParameterOfTwoStages) {
  TinyModel model;
  model.add("a", {"embed"}, {}, "w").add("b", {"head"}, {}, "w");
  EXPECT_THAT(refusal(to_deepspeed, chain({"", "head"}), model.graph()), HasSubstr("share `w`"));
}

}  // namespace
}  // namespace penstock
