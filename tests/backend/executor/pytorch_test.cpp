// The models of configs/models, pipelined, train as their modules do in plain PyTorch: losses, the
// first gradients, and parameters and buffers after five steps. tests/models/export_all.py trains
// the modules, one microbatch after the other, when it exports them. Stages have about equally many
// operators, so they begin within layers as well.
//
// Tolerances are those that the project promises, of each tensor's norm or of 1e-5 of the norm of
// all. Both sides run the same operators on the same microbatches, so they differ by the order of
// sums alone: over the uses of a tied parameter, over the consumers of a value, and inside kernels
// that another memory layout (what is received is contiguous) or number of threads chooses. Each
// such sum has at most some hundred terms of 2^-24 = 6e-8 (float32) or 2^-53 each, and errors of
// either sign: 6e-7 and 1e-15; five steps of SGD at 0.05 let them grow by less than ten. The
// largest differences measured were 1.3e-6 and 2.6e-15.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "backend/data/safetensors.hpp"
#include "graph/cuts/cuts.hpp"
#include "graph/pt2/pt2.hpp"
#include "pipeline/program/schedule.hpp"
#include "tests/backend/executor/run.hpp"
#include "tests/backend/stage/driver.hpp"
#include "tests/models/models.hpp"

namespace penstock::test {
namespace {

constexpr int kMicrobatches = 4, kSteps = 5;  // as export_all.py trains

/// `model.pt2` has `model.data.safetensors` and `model.trained.safetensors` beside it.
std::string beside(const Graph& model, const std::string& what) {
  return std::filesystem::path(model.path).replace_extension(what + ".safetensors").string();
}

/// The entries of the file whose names begin with `prefix`, without it.
Tensors entries(const SafetensorsFile& file, const std::string& prefix) {
  Tensors result;
  for (const auto& [name, entry] : file.entries()) {
    if (name.starts_with(prefix)) result[name.substr(prefix.size())] = read_tensor(file, name);
  }
  return result;
}

/// Names of the first operators of `stages` stages.
std::vector<std::string> begin_names(const Graph& graph, int stages) {
  std::vector<std::string> names;
  for (const OperatorId begin : even_begins(graph, stages)) {
    names.push_back(begin_name(graph, begin));
  }
  return names;
}

double tolerance_of(const std::string& name) { return name.ends_with("-f64") ? 1e-10 : 1e-5; }

class KnownModels : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string& name() const { return std::get<0>(GetParam()); }

  /// As many ranks as asked for in each replica; interleaved schedules have two stages on each.
  Plan plan_over(int ranks, int replicas, const Graph& model) const {
    const Schedule& schedule = find_schedule(std::get<1>(GetParam()), "");
    const bool interleaved = schedule.name.starts_with("interleaved");
    const int microbatches = kMicrobatches / replicas;
    const Program program = schedule.generate({ranks, interleaved ? 2 : 1, microbatches});
    const std::vector<std::string> begins = begin_names(model, program.stage_count());
    EXPECT_EQ(begins.size(), static_cast<size_t>(program.stage_count()));
    Plan plan = plan_of(model.path, beside(model, ".data"), begins, microbatches, 2,
                        std::string(schedule.name), program.rank_of_stage);
    plan.data_parallel = replicas;
    plan.job.global_batch *= replicas;
    return plan;
  }

  void expect_trained(const RunResult& run, const Graph& model,
                      const std::string& reference) const {
    expect_trained(run, model, reference, tolerance_of(name()));
  }

  void expect_trained(const RunResult& run, const Graph& model, const std::string& reference,
                      double tolerance) const {
    const SafetensorsFile trained(beside(model, reference));
    const at::Tensor losses = read_tensor(trained, "losses");
    ASSERT_EQ(run.losses.size(), static_cast<size_t>(losses.numel()));
    for (int64_t step = 0; step < losses.numel(); ++step) {
      const auto expected = losses[step].item<double>();
      EXPECT_NEAR(run.losses[static_cast<size_t>(step)], expected, tolerance * expected);
    }
    EXPECT_LE(difference(run.first_gradients, entries(trained, "gradient.")), tolerance);
    EXPECT_LE(difference(run.parameters, entries(trained, "parameter.")), tolerance);
    for (const Tensors& own : run.copies) {  // by rank: a parameter of several stages stays one
      for (const auto& [parameter, tensor] : own) {
        EXPECT_TRUE(tensor.equal(run.parameters.at(parameter))) << parameter;
      }
    }
    for (size_t replica = 0; replica < run.buffers.size(); ++replica) {
      const Tensors all = entries(trained, "buffer." + std::to_string(replica) + ".");
      EXPECT_EQ(run.buffers[replica].size(), model.updates.size());
      Tensors updated;
      for (const auto& [buffer, tensor] : run.buffers[replica]) updated[buffer] = all.at(buffer);
      EXPECT_LE(difference(run.buffers[replica], updated), tolerance) << "replica " << replica;
    }
  }
};

TEST_P(KnownModels, TrainAsInPlainPyTorch) {
  PENSTOCK_MODEL(path, name());
  const Graph model = read_pt2(path);
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const RunResult run = run_plan(plan_over(ranks, 1, model), kSteps);
    expect_trained(run, model, ".trained");
  }
}

/// Each replica has the statistics of its own microbatches.
TEST_P(KnownModels, TrainOnTwoReplicasAsInPlainPyTorch) {
  PENSTOCK_MODEL(path, name());
  const Graph model = read_pt2(path);
  const RunResult run = run_plan(plan_over(2, 2, model), kSteps);
  expect_trained(run, model, ".replicated");
}

/// Pipelines of groups whose ranks run operators on parts: two replicas of two groups of two, and
/// one of two groups of three that gather again in the backward. What a model computes in float32
/// is as exact as that also where the rest is in float64.
TEST_P(KnownModels, TrainInTensorGroupsAsInPlainPyTorch) {
  PENSTOCK_MODEL(path, name());
  const Graph model = read_pt2(path);
  const bool single_inside = name() == "llama-f64" || name() == "t5-f64";
  const double tolerance = single_inside ? 1e-5 : tolerance_of(name());
  Plan replicated = plan_over(2, 2, model), alone = plan_over(2, 1, model);
  replicated.tensor_parallel = 2;
  alone.tensor_parallel = 3;
  alone.sharding.gathers_again = true;
  expect_trained(run_plan(replicated, kSteps), model, ".replicated", tolerance);
  expect_trained(run_plan(alone, kSteps), model, ".trained", tolerance);
}

std::string name_of(const ::testing::TestParamInfo<KnownModels::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Exported, KnownModels,
    ::testing::Combine(::testing::Values("gpt2", "gpt2-f64", "llama", "llama-f64", "bert",
                                         "bert-f64", "t5", "t5-f64", "moe", "moe-f64", "unet",
                                         "unet-f64", "resnet", "resnet-f64", "vit", "vit-f64"),
                       ::testing::Values("gpipe", "1f1b", "interleaved-1f1b", "zb-h1")),
    name_of);

}  // namespace
}  // namespace penstock::test
