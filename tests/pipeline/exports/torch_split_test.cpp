// Split points for torch: what they say, and each thing that they cannot.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "pipeline/exports/exports.hpp"
#include "tests/graph/build_graph.hpp"
#include "tests/pipeline/exports/support.hpp"
#include "tests/pipeline/tiny_model.hpp"

namespace penstock {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TorchSplit, NamesTheModuleWithWhichEachStageButTheFirstBegins) {
  const std::string text =
      exported(to_torch_split, export_chain({"", "layers.1", "relu_2", "norm"}), stack_of(4));
  EXPECT_EQ(text,
            "{\n  \"layers.1\": \"BEGINNING\",\n  \"layers.2.relu\": \"BEGINNING\",\n"
            "  \"norm\": \"BEGINNING\"\n}\n");
}

TEST(TorchSplit, OneStageHasNoSplitPoint) {
  EXPECT_EQ(exported(to_torch_split, export_chain({""}), stack_of(2)), "{}\n");
}

TEST(TorchSplit, RefusesACutWhereNoModuleBegins) {
  TinyModel model;
  model.add("a", {"first"}).add("sum", {}).add("b", {"second"}).add("c", {"third"});
  EXPECT_THAT(export_refusal(to_torch_split, export_chain({"", "sum"}), model.graph()),
              AllOf(HasSubstr("plan.yaml: stages[1].begin: stage 1 begins at `sum`, an operator "
                              "outside all modules; torch splits where a module begins"),
                    HasSubstr("Begin stage 1 at `second`.")));
}

TEST(TorchSplit, RefusesOneCallOfSeveral) {
  TinyModel model;
  model.add("a", {"block"}).add("b", {"block@1"}).add("c", {"head"});
  EXPECT_THAT(export_refusal(to_torch_split, export_chain({"", "block@1"}), model.graph()),
              AllOf(HasSubstr("stage 1 begins at `block@1`, a module that is called several times"),
                    HasSubstr("Begin stage 1 at `head`.")));
}

TEST(TorchSplit, RefusesAParameterOfTwoStages) {
  TinyModel model;
  model.add("a", {"embed"}, {}, "w").add("b", {"middle"}).add("c", {"head"}, {}, "w");
  EXPECT_THAT(export_refusal(to_torch_split, export_chain({"", "head"}), model.graph()),
              AllOf(HasSubstr("stages 0 and 1 share `w`"), HasSubstr("penstock execute")));
}

TEST(TorchSplit, RefusesRecomputation) {
  Plan plan = export_chain({"", "layers.1"});
  plan.stages[1].recompute = {.whole = true};
  EXPECT_THAT(
      export_refusal(to_torch_split, plan, stack_of(2)),
      AllOf(HasSubstr("plan.yaml: stages[1].recompute: stage 1 recomputes, and torch's split "
                      "points do not say so"),
            HasSubstr("torch.utils.checkpoint")));
}

TEST(TorchSplit, RefusesAnInputThatALaterStageReads) {
  TinyModel model;
  model.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}, {"x"});
  EXPECT_THAT(export_refusal(to_torch_split, export_chain({"", "two"}), model.graph()),
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
  EXPECT_EQ(export_refusal(to_torch_split, export_chain({"", "two"}), b.graph), "");
  b.graph.values[static_cast<size_t>(counter)].dtype = DType::int64;
  EXPECT_THAT(export_refusal(to_torch_split, export_chain({"", "two"}), b.graph),
              HasSubstr("stage 1 reads `arange`, int64 of stage 0"));
}

TEST(TorchSplit, RefusesASkipConnectionWhereARankHasSeveralStages) {
  TinyModel model;
  model.add("a", {"one"}).add("b", {"two"}).add("c", {"three"}).add("d", {"four"}, {"a"});
  Plan plan = export_chain({"", "two", "three", "four"});
  EXPECT_EQ(json::parse(exported(to_torch_split, plan, model.graph())).size(), 3);
  for (size_t stage = 0; stage < 4; ++stage) plan.stages[stage].rank = static_cast<int>(stage) % 2;
  EXPECT_THAT(export_refusal(to_torch_split, plan, model.graph()),
              HasSubstr("plan.yaml: stages[3].begin: stage 3 reads `a`, of stage 0; with several "
                        "stages on a rank torch sends to the next alone"));
}

TEST(TorchSplit, RefusesAStageThatIsNoStretchOfTheModel) {
  const Plan plan = export_plan({{0, "", {"one", "three"}}, {1, "", {"two", "four"}}});
  EXPECT_THAT(export_refusal(to_torch_split, plan, branches()),
              AllOf(HasSubstr("plan.yaml: stages[0].modules: stage 0 is not one stretch"),
                    HasSubstr("Plan with --contiguous, or give every stage a `begin`")));
}

}  // namespace
}  // namespace penstock
