// Which parameters a job's patterns mean, and how many bytes training them takes.
#include "pipeline/job/parameters.hpp"

#include <gmock/gmock.h>

#include "tests/pipeline/support.hpp"
#include "tests/pipeline/tiny_model.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Weights of two dimensions, a bias and a norm of one, a head tied to the embedding.
Graph model() {
  TinyModel tiny;
  for (const char* name : {"wte", "h.0.fc", "h.0.norm", "h.1.fc"}) tiny.add(name, {});
  Graph graph = tiny.graph();
  graph.tensors[0].aliases = {"head.w"};
  graph.tensors[2].sizes = {8};
  return graph;
}

Job job_freezing(const std::vector<std::string>& frozen) {
  Job job;
  job.optimizer.frozen = frozen;
  return job;
}

std::vector<std::string> trained(const Job& job, Graph graph = model()) {
  apply_job(job, graph);
  std::vector<std::string> names;
  for (const StoredTensor& tensor : graph.tensors)
    if (tensor.requires_grad) names.push_back(tensor.name);
  return names;
}

TEST(Parameters, APatternIsANameAModuleOrBothWithStars) {
  EXPECT_THAT(trained(job_freezing({"wte.w"})), ElementsAre("h.0.fc.w", "h.0.norm.w", "h.1.fc.w"));
  EXPECT_THAT(trained(job_freezing({"h.0"})), ElementsAre("wte.w", "h.1.fc.w"));
  EXPECT_THAT(trained(job_freezing({"*.fc", "*norm*"})), ElementsAre("wte.w"));
  EXPECT_THAT(trained(job_freezing({"h.?.fc.w"})), ElementsAre("wte.w", "h.0.norm.w"));
}

TEST(Parameters, ATiedOneHasAllItsNames) {
  EXPECT_THAT(trained(job_freezing({"head"})), ElementsAre("h.0.fc.w", "h.0.norm.w", "h.1.fc.w"));
}

TEST(Parameters, APatternThatNoneHasIsRefusedWithTheNearestName) {
  EXPECT_THAT(input_error([] {
                trained(job_freezing({"h.0", "h.1.fx"}));
              }),
              AllOf(HasSubstr("optimizer.frozen[1]"), HasSubstr("tiny.pt2"), HasSubstr("`h.1.fx`"),
                    HasSubstr("Did you mean h.1.fc?")));
  Job job;
  job.optimizer.groups = {{{"nothing like it"}, 0.1, {}}};
  EXPECT_THAT(input_error([&] { trained(job); }), AllOf(HasSubstr("optimizer.groups[0].parameters"),
                                                        HasSubstr("as the Python module")));
}

TEST(Parameters, SomethingIsLeftToTrain) {
  EXPECT_THAT(input_error([] { trained(job_freezing({"*"})); }),
              AllOf(HasSubstr("nothing of tiny.pt2 is left"), HasSubstr("Freeze fewer")));
}

TEST(Parameters, TheFirstGroupCountsAndNormsAndBiasesDoNotDecay) {
  Job job;
  job.optimizer.learning_rate = 1;
  job.optimizer.weight_decay = 0.5;
  job.optimizer.no_decay_of_norms_biases = true;
  job.optimizer.groups = {{{"h.1"}, 2, {}}, {{"h.*"}, 3, 0.25}};
  const auto settings = parameter_settings(job.optimizer, model());
  const auto of = [&](int i) {
    return std::pair(settings.at(i).learning_rate, settings.at(i).weight_decay);
  };
  EXPECT_EQ(of(0), std::pair(1.0, 0.5));
  EXPECT_EQ(of(1), std::pair(3.0, 0.25));
  EXPECT_EQ(of(2), std::pair(3.0, 0.25)) << "a group's own weight decay comes before the rule";
  EXPECT_EQ(of(3), std::pair(2.0, 0.5));
  job.optimizer.groups.clear();
  EXPECT_EQ(parameter_settings(job.optimizer, model()).at(2).weight_decay, 0);
}

TEST(Parameters, TrainingTakesGradientStatesAndMasters) {
  Job job;
  job.optimizer.kind = OptimizerSpec::Kind::adamw;
  StoredTensor tensor{.name = "w", .requires_grad = true, .sizes = {10}};
  EXPECT_EQ(training_bytes(job, tensor), 40 * (1 + 2));
  tensor.dtype = DType::bfloat16;
  EXPECT_EQ(training_bytes(job, tensor), 20 * (1 + 2)) << "all in the model's own type";
  job.precision = Precision::bf16;
  EXPECT_EQ(gradient_bytes(job, tensor), 40);
  EXPECT_EQ(training_bytes(job, tensor), 40 * (1 + 1 + 2)) << "18 bytes a parameter with its own 2";
  tensor.requires_grad = false;
  EXPECT_EQ(training_bytes(job, tensor), 0);
  EXPECT_EQ(gradient_bytes(job, tensor), 0);
}

TEST(Parameters, MixedPrecisionTakesAModelOfBfloat16) {
  Job job;
  job.precision = Precision::bf16;
  EXPECT_THAT(input_error([&] { trained(job); }),
              AllOf(HasSubstr("precision"), HasSubstr("`wte.w` of tiny.pt2 is float32"),
                    HasSubstr("--dtype bfloat16")));
}

TEST(Parameters, AnOutputThatIsNoScalarIsNoLoss) {
  Job job;
  job.loss = Loss::output;
  Graph graph = model();
  Value& output = graph.values[graph.first_output().value()];
  EXPECT_THAT(input_error([&] { apply_job(job, graph); }),
              AllOf(HasSubstr("loss: output, but the first output of"), HasSubstr("tiny.pt2"),
                    HasSubstr(output.name), HasSubstr(output.type()), HasSubstr("scalar")));
  output.shape = {Expression(1), Expression(1)};
  apply_job(job, graph);
  output.shape = {};
  apply_job(job, graph);
  output.dtype = DType::int64;
  EXPECT_THAT(input_error([&] { apply_job(job, graph); }), HasSubstr("int64 []"));
  graph.outputs = {{"output", None{}}};
  EXPECT_THAT(input_error([&] { apply_job(job, graph); }), HasSubstr("no tensor"));
}

}  // namespace
}  // namespace penstock
