// From a plan to stages and to the program that its ranks run.
#include <gmock/gmock.h>

#include <algorithm>

#include "pipeline/plan/module_names.hpp"
#include "pipeline/plan/plan.hpp"
#include "tests/graph/build_graph.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/pipeline/tiny_model.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Plan plan_with(std::vector<StagePlan> stages) {
  Plan plan;
  plan.path = "plan.yaml";
  plan.microbatches = 2;
  plan.stages = std::move(stages);
  return plan;
}

std::string program_refusal(const Plan& plan, const Graph& model) {
  return input_error([&] { lowered_program(plan, sliced(plan, model)); });
}

TEST(PlanStages, IntervalsReachUpToTheNextBegin) {
  const Graph model = layered_model().graph();  // embedding, 4 x (linear, relu), logits
  const Slicing slicing = sliced(plan_with({{0, ""}, {1, "layers.1"}, {2, "relu_2"}}), model);
  EXPECT_THAT(slicing.stage_of_operator, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2, 2));
}

TEST(PlanStages, ModulesTakeTheirOperatorsFromAnIntervalStage) {
  // Stage 0 runs what no stage lists; a list names containers, modules or inner modules.
  const Graph model = layered_model().graph();
  const Slicing slicing = sliced(plan_with({{0, ""}, {1, "", {"layers", "head"}}}), model);
  EXPECT_THAT(slicing.stage_of_operator, ElementsAre(0, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  const Slicing inner = sliced(plan_with({{0, "", {"embed", "layers.0"}},
                                          {1, "", {"layers"}},
                                          {2, "", {"layers.3.relu", "head"}}}),
                               model);
  EXPECT_THAT(inner.stage_of_operator, ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 2, 2))
      << "the innermost listed module decides";
}

TEST(PlanStages, RecomputeTheUnitsThatAreNamed) {
  const Graph model = layered_model().graph();
  const std::vector<Unit> all = units(model, analyse(model));
  ASSERT_GE(all.size(), 4U);
  Plan plan = plan_with({{0, ""}});
  Recompute& recompute = plan.stages[0].recompute;
  const auto segments = [&] { return sliced(plan, model).stages[0].recomputed; };
  recompute.units = {all[3].label, all[0].label};
  EXPECT_THAT(segments(),
              ElementsAre(Segment{all[0].begin, all[0].end}, Segment{all[3].begin, all[3].end}));
  recompute.units = {all[0].label, all[1].label};
  const std::vector<Segment> named = segments();
  recompute = {.first_units = 2};
  EXPECT_EQ(segments(), named);
  recompute = {.units = {"layers"}};
  EXPECT_THAT(input_error([&] { segments(); }),
              AllOf(HasSubstr("plan.yaml: stages[0].recompute: no unit of the stage begins at "
                              "`layers`"),
                    HasSubstr("Its units begin at ``, `layers.")));
  recompute.units = {all[1].label, all[1].label};
  EXPECT_THAT(input_error([&] { segments(); }), HasSubstr("is listed twice"));
  recompute = {.first_units = 100};
  EXPECT_THAT(input_error([&] { segments(); }), HasSubstr("units, not 100"));
}

TEST(PlanStages, AnOperatorCanBeListedAlone) {
  const Graph model = layered_model().graph();
  const Slicing slicing =
      sliced(plan_with({{0, ""}, {1, "", {"%relu_2", "layers.3", "head"}}}), model);
  EXPECT_THAT(slicing.stage_of_operator, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(PlanStages, AreNamedSoThatTheyAreReadBackTheSame) {
  // Two towers; a stage that is no interval takes modules where they are its own, else operators.
  using testing::batch;
  testing::GraphBuilder towers;
  const auto add = [&](const std::vector<ValueId>& reads, const std::vector<std::string>& modules) {
    return towers.op("aten::add.Tensor", reads, {batch, 4}, modules);
  };
  const ValueId x = towers.input("x", {batch, 4});
  const ValueId a0 = add({x}, {"a"}), b0 = add({x}, {"b", "b.first"});
  const ValueId a1 = add({a0}, {"a"}), b1 = add({b0}, {"b"});
  towers.output(add({add({a1, b1}, {})}, {"c"}));
  const Graph& model = towers.graph;
  const std::vector<std::vector<int>> cases = {
      {0, 0, 1, 1, 2, 2}, {0, 1, 0, 1, 2, 2}, {0, 0, 1, 0, 1, 1}, {0, 1, 0, 2, 2, 2}};
  for (const std::vector<int>& owner : cases) {
    Plan plan = plan_with({{0, ""}, {1, ""}, {2, ""}});
    plan.stages.resize(static_cast<size_t>(*std::ranges::max_element(owner)) + 1);
    name_stages(model, owner, plan);
    EXPECT_EQ(sliced(plan, model).stage_of_operator, owner);
  }
  Plan plan = plan_with({{0, ""}, {1, ""}, {2, ""}});
  name_stages(model, cases[1], plan);
  EXPECT_THAT(plan.stages[1].modules, ElementsAre("b"));
  name_stages(model, cases[0], plan);
  EXPECT_EQ(plan.stages[1].begin, model.operators[2].name);
  EXPECT_TRUE(plan.stages[1].modules.empty());
}

TEST(PlanStages, ACallOfARepeatedModuleCanBeListedAlone) {
  TinyModel model;
  model.add("a", {"block"}, {}, "w").add("b", {"block@1"}, {}, "w").add("c", {"block@2"}, {}, "w");
  const Slicing one = sliced(plan_with({{0, ""}, {1, "", {"block@2"}}}), model.graph());
  EXPECT_THAT(one.stage_of_operator, ElementsAre(0, 0, 1));
  const Slicing rest =
      sliced(plan_with({{0, "", {"block"}}, {1, "", {"block@1", "block@2"}}}), model.graph());
  EXPECT_THAT(rest.stage_of_operator, ElementsAre(0, 1, 1))
      << "a path without a call means all others";
}

TEST(PlanStages, MistakesAreRefusedWithPlaceValueAndCure) {
  const Graph model = layered_model().graph();
  EXPECT_THAT(refusal(plan_with({{0, ""}, {1, "layers.9"}}), model),
              AllOf(HasSubstr("plan.yaml: stages[1].begin"), HasSubstr("layers.9"),
                    HasSubstr("Did you mean")));
  EXPECT_THAT(refusal(plan_with({{0, ""}, {1, "layers.2"}, {2, "layers.1"}}), model),
              AllOf(HasSubstr("plan.yaml: stages[2].begin: `layers.1` does not come after"),
                    HasSubstr("Order the stages")));
  EXPECT_THAT(refusal(plan_with({{0, ""}, {1, "layers.1"}, {2, "linear_1"}}), model),
              HasSubstr("stages[2].begin: `linear_1` does not come after"))
      << "a stage without operators";
  EXPECT_THAT(refusal(plan_with({{0, ""}, {1, "embed"}}), model),
              HasSubstr("`embed` does not come after"));
  EXPECT_THAT(refusal(plan_with({{0, ""}, {1, "", {"laiers"}}}), model),
              AllOf(HasSubstr("stages[1].modules: the model runs no module `laiers`"),
                    HasSubstr("Did you mean layers?")));
  EXPECT_THAT(refusal(plan_with({{0, "", {"head"}}, {1, "", {"head"}}}), model),
              AllOf(HasSubstr("stages[1].modules: `head` is already listed by stage 0"),
                    HasSubstr("once")));
  EXPECT_THAT(refusal(plan_with({{0, "", {"embed"}}, {1, "", {"layers"}}}), model),
              AllOf(HasSubstr("operator `logits` of `head` belongs to no stage"),
                    HasSubstr("begin: \"\"")));
  EXPECT_THAT(refusal(plan_with({{0, ""}, {1, "logits"}, {2, "", {"head"}}}), model),
              AllOf(HasSubstr("stages[1].begin: stage 1 has no operator"), HasSubstr("Remove")));
  EXPECT_THAT(refusal(plan_with({{0, ""}, {1, "", {"embed"}}}), model),
              HasSubstr("goes back from stage 1"));
  Plan shared = plan_with({{0, ""}});
  shared.shared_parameters["logit.w"] = "replicate";
  EXPECT_THAT(refusal(shared, model),
              AllOf(HasSubstr("shared_parameters.logit.w"), HasSubstr("Did you mean logits.w?")));
}

TEST(PlanStages, APlanForAnotherModelIsRefused) {
  const Graph model = layered_model().graph();
  Plan plan = plan_with({{0, ""}});
  EXPECT_EQ(input_error([&] { check_fingerprint(plan, model); }), "")
      << "a plan by hand names none";
  plan.model_sha256 = model.sha256;
  EXPECT_EQ(input_error([&] { check_fingerprint(plan, model); }), "");
  plan.model_sha256 = std::string(64, 'b');
  EXPECT_THAT(input_error([&] { check_fingerprint(plan, model); }),
              AllOf(HasSubstr("plan.yaml: model_sha256: the plan was made for another model"),
                    HasSubstr("tiny.pt2"), HasSubstr("Plan this model anew")));
}

TEST(PlanProgram, IsTheScheduleLoweredAlongTheDataFlow) {
  const Graph model = layered_model().graph();
  const Plan plan = plan_with({{0, ""}, {1, "layers.2"}});
  const Slicing slicing = sliced(plan, model);
  EXPECT_EQ(to_csv(lowered_program(plan, slicing)),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0OPT\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1OPT\n");
  EXPECT_EQ(to_csv(lowered_program(for_inference(plan), slicing)),
            "0F0,0SEND_F0,0F1,0SEND_F1\n"
            "1RECV_F0,1F0,1RECV_F1,1F1\n");
}

TEST(PlanProgram, ASkipConnectionIsSentToTheStageThatUsesIt) {
  TinyModel model;
  model.add("a", {"a"}).add("b", {"b"}).add("c", {"c"}, {"a"});
  Plan plan = plan_with({{0, ""}, {1, "b"}, {2, "c"}});
  plan.microbatches = 1;
  EXPECT_EQ(to_csv(lowered_program(for_inference(plan), sliced(plan, model.graph()))),
            "0F0,0SEND_F0,0SEND_F0:2\n"
            "1RECV_F0,1F0,1SEND_F0\n"
            "2RECV_F0:0,2RECV_F0,2F0\n");
}

TEST(PlanProgram, StagesThatShareAParameterAcrossRanksReduceIt) {
  TinyModel model;
  model.add("a", {"a"}, {}, "w").add("b", {"b"}).add("c", {"c"}, {}, "w");
  Plan plan = plan_with({{0, ""}, {1, "b"}, {2, "c"}});
  const auto reductions = [&] {
    std::string text;
    for (const auto& row : lowered_program(plan, sliced(plan, model.graph())).ranks) {
      for (const Action& action : row) {
        if (action.kind == Kind::reduce_grad) text += to_string(action) + " ";
      }
    }
    return text;
  };
  EXPECT_EQ(reductions(), "0REDUCE_GRAD 2REDUCE_GRAD ");
  plan.data_parallel = 2;
  EXPECT_EQ(reductions(), "0REDUCE_GRAD 1REDUCE_GRAD 2REDUCE_GRAD ")
      << "replicas sum every gradient";
}

class PlanProgramFile : public ::testing::Test {
 protected:
  Plan with_program(const std::string& csv) {
    Plan plan = plan_with({{0, ""}, {1, "layers.2"}});
    plan.microbatches = 1;
    plan.schedule.clear();
    plan.program = folder_.write("p.csv", csv).string();
    return plan;
  }
  TemporaryFolder folder_;
  Graph model_ = layered_model().graph();
};

TEST_F(PlanProgramFile, ComputeOnlyIsLowered) {
  const Plan plan = with_program("0F0,,0B0\n1F0,1I0,1W0\n");
  EXPECT_EQ(to_csv(lowered_program(plan, sliced(plan, model_))),
            "0F0,0SEND_F0,0RECV_B0,0B0,0OPT\n1RECV_F0,1F0,1I0,1SEND_B0,1W0,1OPT\n");
}

TEST_F(PlanProgramFile, LoweredIsTakenAsItIs) {
  const Plan plan = with_program("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1I0,1W0,1SEND_B0\n");
  EXPECT_EQ(to_csv(lowered_program(plan, sliced(plan, model_))),
            "0F0,0SEND_F0,0RECV_B0,0B0,0OPT\n1RECV_F0,1F0,1I0,1W0,1SEND_B0,1OPT\n");
  EXPECT_EQ(to_csv(lowered_program(for_inference(plan), sliced(plan, model_))),
            "0F0,0SEND_F0\n1RECV_F0,1F0\n");
}

TEST_F(PlanProgramFile, WhatDoesNotFitThePlanIsRefused) {
  EXPECT_THAT(program_refusal(with_program("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1"), model_),
              AllOf(HasSubstr("p.csv: the program has 2 microbatches, the plan 1"),
                    HasSubstr("microbatches: 2")));
  EXPECT_THAT(program_refusal(with_program("0F0,0B0\n1F0,1B0\n2F0,2B0"), model_),
              HasSubstr("p.csv: the program has 3 stages, the plan 2"));
  EXPECT_THAT(program_refusal(with_program("1F0,1B0\n0F0,0B0"), model_),
              AllOf(HasSubstr("p.csv: stage 0 runs on rank 1, the plan has it on rank 0"),
                    HasSubstr("rank: 1")));
  EXPECT_THAT(program_refusal(with_program("0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0"), model_),
              HasSubstr("p.csv: rank 0: 0B0 has no 0RECV_B0 before it"));
  EXPECT_THAT(program_refusal(with_program("0F0,0B0\n1F0"), model_),
              HasSubstr("p.csv: rank 1: 1B0 is missing"));
  Plan absent = plan_with({{0, ""}});
  absent.program = "/nonexistent/p.csv";
  EXPECT_THAT(program_refusal(absent, model_), HasSubstr("/nonexistent/p.csv"));
}

TEST(PlanProgram, AScheduleThatThePlacementDoesNotFitIsRefused) {
  const Graph model = layered_model().graph();
  EXPECT_THAT(
      program_refusal(plan_with({{0, ""}, {1, "layers.1"}, {0, "layers.2"}}), model),
      AllOf(HasSubstr("plan.yaml: schedule 1f1b: 3 stages on 2 ranks"), HasSubstr("same number")));
  EXPECT_THAT(
      program_refusal(plan_with({{0, ""}, {0, "layers.1"}}), model),
      AllOf(HasSubstr("schedule 1f1b: 2 stages per rank"), HasSubstr("runs 1 on each rank")));
  EXPECT_THAT(program_refusal(plan_with({{1, ""}, {0, "layers.1"}}), model),
              AllOf(HasSubstr("stage 0 runs on rank 0, the plan has it on rank 1"),
                    HasSubstr("`rank: 0` for stages[0]")));
}

}  // namespace
}  // namespace penstock
