// Guarantees of a whole profile, made by one rank on small models: complete, in order, consistent,
// equal when read back, and continued from a part. Nothing here depends on how long anything takes.
#include "backend/profiler/profiler.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "backend/device/memory.hpp"
#include "backend/device/out_of_memory.hpp"
#include "backend/profiler/chain.hpp"
#include "backend/profiler/sizes.hpp"
#include "backend/profiler/subject.hpp"
#include "base/file.hpp"
#include "pipeline/profile/variation.hpp"
#include "pipeline/sharding/group_graphs.hpp"
#include "tests/backend/executor/ranks.hpp"
#include "tests/backend/profiler/profiling.hpp"
#include "tests/backend/profiler/scripted_device.hpp"
#include "tests/models/models.hpp"

namespace penstock::profiler {
namespace {

using ::testing::ElementsAre;

class OfModel : public ProfilerTest, public ::testing::WithParamInterface<Case> {};

/// The first size is measured often enough to know what its times vary by.
void expect_noise(const MicrobatchCosts& costs) {
  ASSERT_EQ(costs.rounds.size(), 1U) << "of one rank";
  EXPECT_GE(costs.rounds.front().size(), min_rounds);
  for (const UnitCost& unit : costs.units) {
    for (const Factors* jitter : {&unit.jitter.forward, &unit.jitter.backward,
                                  &unit.jitter.backward_input, &unit.jitter.backward_weight}) {
      ASSERT_EQ(jitter->size(), kept_factors);
      // Written with five digits, each off by half of the last.
      const double sum = std::accumulate(jitter->begin(), jitter->end(), 0.0);
      EXPECT_NEAR(sum / kept_factors, 1, 0.6e-5) << unit.label;
    }
  }
}

TEST_P(OfModel, IsCompleteInOrderConsistentAndEqualWhenReadBack) {
  PENSTOCK_MODEL(model, GetParam().model);
  const Profile made = profile(write_job(model, GetParam().loss));
  const Graph graph = read_pt2(model);
  EXPECT_EQ(made.model_sha256, graph.sha256);
  std::vector<int64_t> sizes = microbatch_sizes(graph, 4, "job");
  std::ranges::sort(sizes);
  ASSERT_EQ(made.microbatches.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    SCOPED_TRACE("microbatch " + std::to_string(sizes[i]));
    EXPECT_EQ(made.microbatches[i].microbatch, sizes[i]);
    expect_consistent(made.microbatches[i], graph);
    EXPECT_GT(sum(made.microbatches[i].units, &ActionTimes::backward), 0);
  }
  expect_noise(made.microbatches.front());
  EXPECT_GE(made.device.threads, 1);
  EXPECT_GT(made.device.memory_bytes, 0);
  EXPECT_GT(made.probe.gemm_s, 0);
  EXPECT_GT(made.base_memory_bytes, 0);
  EXPECT_GT(made.action_overhead_s, 0);
  EXPECT_EQ(to_json(made, partial_), read_file(partial_));
}

INSTANTIATE_TEST_SUITE_P(
    Models, OfModel,
    ::testing::Values(Case{"pippy", "cross_entropy"}, Case{"iterative", "cross_entropy"},
                      Case{"image_classifier", "cross_entropy"},
                      Case{"transformer-text", "cross_entropy"},
                      Case{"transformer-text-dropout", "cross_entropy"},
                      Case{"transformer-static", "cross_entropy"},
                      Case{"everything", "cross_entropy"}, Case{"lstm", "cross_entropy"},
                      Case{"parameters", "mse"}, Case{"unet", "mse"}, Case{"outputs", "output"},
                      Case{"t5", "cross_entropy"}, Case{"pippy-f64", "bce_with_logits"}),
    name_of_case);

/// A scalar; but that of mse_loss lies in memory as large as the output.
double bytes_of_loss(const Graph& graph, const LossSpec& loss, int64_t batch) {
  if (loss.kind != Loss::mse) return sizeof(double);
  const auto output = std::get<TensorRef>(graph.outputs.front().value);
  return static_cast<double>(graph.values[output.value].bytes(batch));
}

double bytes_from_parameters_alone(const Graph& graph, const Analysis& analysis, int64_t batch) {
  int64_t bytes = 0;
  for (size_t value = 0; value < graph.values.size(); ++value) {
    if (analysis.parameter_derived[value]) bytes += graph.values[value].bytes(batch);
  }
  return static_cast<double>(bytes);
}

class ChainOfModel : public ProfilerTest, public ::testing::WithParamInterface<Case> {};

/// Runs chains directly: memory in parts is that of the whole, which is traced.
void expect_traced_to_the_byte(Subject& subject, int64_t size) {
  const Batch batch = subject.batches.read(0, size);
  const StepContext context{.batch = size};
  for (const bool split : {false, true}) {
    for (Chain* chain : {&subject.whole, &subject.by_unit, &subject.by_group}) {
      chain->run(batch, context, split);  // gradients and constants are there from now on
    }
    const int64_t before = memory::held_bytes();
    memory::reset_peak();
    const ChainRun whole = subject.whole.run(batch, context, split);
    const int64_t peak = memory::peak_bytes() - before;
    const ChainRun units = subject.by_unit.run(batch, context, split);
    const ChainRun groups = subject.by_group.run(batch, context, split);
    EXPECT_EQ(memory::held_bytes(), before);
    MemoryTrace trace(subject.graph, cpu_device());
    subject.whole.trace_memory(batch, context, split, trace);
    EXPECT_EQ(memory::held_bytes(), before);
    HeldSums sums;
    for (const HeldBytes& held : trace.held()) sums.add(held);
    const MemoryChange all = split
                                 ? sums.forward.then(sums.backward_input).then(sums.backward_weight)
                                 : sums.forward.then(sums.backward);
    // To the end of the step, which is in none of the actions, a chain holds the loss, and what is
    // computed from parameters alone with its gradient.
    const double to_the_end = bytes_of_loss(subject.graph, subject.job.loss, size) +
                              bytes_from_parameters_alone(subject.graph, subject.analysis, size);
    EXPECT_NEAR(all.net, 0, to_the_end);
    EXPECT_NEAR(all.peak, peak, 2 * to_the_end);
    // The same numbers through the same operators; sums over consumers may be in another order.
    EXPECT_NEAR(units.loss, whole.loss, 1e-5 * std::abs(whole.loss));
    EXPECT_NEAR(groups.loss, whole.loss, 1e-5 * std::abs(whole.loss));
  }
}

int64_t traced_size(const Graph& graph) { return graph.dynamic_batch ? 2 : graph.example_batch; }

TEST_P(ChainOfModel, HoldsNothingAfterTheBackwardAndIsTracedToTheByte) {
  PENSTOCK_MODEL(model, GetParam().model);
  const Job job = read_job(write_job(model, GetParam().loss));
  const Graph graph = read_pt2(model);
  Subject subject(job, graph);
  expect_traced_to_the_byte(subject, traced_size(graph));
}

TEST_P(ChainOfModel, OfAPartIsTracedToTheByteToo) {
  PENSTOCK_MODEL(model, GetParam().model);
  const Job job = read_job(write_job(model, GetParam().loss));
  const Graph graph = read_pt2(model);
  for (const GroupGraph& group : group_graphs(graph, job.loss, {}, {traced_size(graph)}, {2, 3})) {
    SCOPED_TRACE(group.parts);
    const GroupTensors tensors{graph, group.parts, group.local.tensors};
    Subject subject(job, group.local.graph, cpu_device(), &tensors);
    expect_traced_to_the_byte(subject, traced_size(graph));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, ChainOfModel,
    ::testing::Values(Case{"pippy", "cross_entropy"}, Case{"transformer-text", "cross_entropy"},
                      Case{"everything", "cross_entropy"}, Case{"lstm", "cross_entropy"},
                      Case{"unet", "mse"}, Case{"gpt2", "cross_entropy"},
                      Case{"llama", "cross_entropy"}, Case{"bert", "cross_entropy"},
                      Case{"t5", "cross_entropy"}, Case{"moe", "cross_entropy"},
                      Case{"resnet", "cross_entropy"}),
    name_of_case);

TEST_F(ProfilerTest, TellsHowFarItIs) {
  PENSTOCK_MODEL(model, "pippy");
  profile(write_job(model, "cross_entropy", 2));
  double last = 0;
  for (const Json& event : events_) {
    if (event.at("event") != "progress") continue;
    EXPECT_GE(event.at("share").get<double>(), last);
    last = event.at("share");
  }
  EXPECT_GT(last, 0.5);
  EXPECT_LE(last, 1);
}

void keep_only_first_size(const std::string& file) {
  Json partial = Json::parse(read_file(file));
  auto& sizes = partial.at("microbatches");
  while (sizes.size() > 1) sizes.erase(sizes.size() - 1);
  sizes[0].at("load_batch_s") = mark;
  write_file(file, partial.dump());
}

TEST_F(ProfilerTest, ContinuesWhatAnEarlierRunMeasured) {
  PENSTOCK_MODEL(model, "pippy");
  const std::string job = write_job(model, "cross_entropy");
  profile(job);
  keep_only_first_size(partial_);
  const Profile made = profile(job);
  ASSERT_EQ(made.microbatches.size(), 3u);
  EXPECT_EQ(made.microbatches[0].load_batch_s, mark);
  EXPECT_NE(made.microbatches[1].load_batch_s, mark);
}

TEST_F(ProfilerTest, StartsAnewForAnotherJob) {
  PENSTOCK_MODEL(model, "pippy");
  profile(write_job(model, "cross_entropy"));
  keep_only_first_size(partial_);
  const Profile made = profile(write_job(model, "mse"));
  ASSERT_EQ(made.microbatches.size(), 3u);
  EXPECT_NE(made.microbatches[0].load_batch_s, mark);
}

TEST_F(ProfilerTest, StartsAnewWhereTheEarlierRunWasAQuickOne) {
  PENSTOCK_MODEL(model, "pippy");
  const std::string job = write_job(model, "cross_entropy");
  EXPECT_TRUE(profile(job, {.quick = true}).device.details.contains("quick"));
  keep_only_first_size(partial_);
  const Profile made = profile(job);
  EXPECT_FALSE(made.device.details.contains("quick"));
  EXPECT_NE(made.microbatches[0].load_batch_s, mark);
}

TEST_F(ProfilerTest, StartsAnewFromAFileThatIsCutShort) {
  PENSTOCK_MODEL(model, "pippy");
  write_file(partial_, "{\"penstock\": \"profile\", \"version\"");
  EXPECT_EQ(profile(write_job(model, "cross_entropy", 2)).microbatches.size(), 2u);
}

/// The CPU, whose memory is full on demand.
class FullDevice : public test::ScriptedDevice {
 public:
  bool runs_behind() const override { return false; }
  std::unique_ptr<Marks> make_marks() override { return cpu_device().make_marks(); }
  int64_t available_bytes() const override { return int64_t{1} << 40; }
  void reset_peak() override {
    if (left >= 0 && left-- == 0) throw OutOfMemory("no memory left");
  }
  std::atomic<int> left = -1;  // so many actions before it is full; -1: all
};

/// On either of two ranks, in any pass of the size.
TEST_F(ProfilerTest, EndsWithTheLargestMicrobatchForWhichAllRanksHaveMemory) {
  PENSTOCK_MODEL(model, "pippy");
  const std::string job = write_job(model, "cross_entropy", 16);
  for (const int which : {0, 1}) {
    for (const int before : {0, 8}) {
      std::filesystem::remove(partial_);
      FullDevice devices[2];
      std::string warnings;
      test::run_ranks(make_in_process(2), [&](Communicator& own) {
        FullDevice& device = devices[own.rank()];
        run({.job = job, .partial = partial_, .device = &device}, own, [&](const Json& event) {
          if (event.at("event") == "warning") warnings += event.at("message").get<std::string>();
          if (event.value("what", "") == "microbatch 4" && devices[which].left < 0)
            devices[which].left = before;
        });
      });
      std::vector<int64_t> sizes;
      for (const MicrobatchCosts& costs : read_profile(partial_).microbatches)
        sizes.push_back(costs.microbatch);
      EXPECT_THAT(sizes, ElementsAre(1, 2)) << which << " after " << before;
      EXPECT_EQ(warnings, "microbatch 4 and larger ones are not measured: the memory is full");
    }
  }
}

TEST_F(ProfilerTest, MeasuresTheJobsOptimizer) {
  PENSTOCK_MODEL(model, "pippy");
  const Profile made =
      profile(write_job(model, "cross_entropy", 1, "{kind: adamw, learning_rate: 0.1}"));
  EXPECT_GT(made.optimizer_s_per_byte, 0);
}

TEST_F(ProfilerTest, ParametersStayAsTheyAre) {
  PENSTOCK_MODEL(model, "pippy");
  const Job job = read_job(
      write_job(model, "cross_entropy", 1, "{kind: adamw, learning_rate: 0.1, weight_decay: 0.5}"));
  const Graph graph = read_pt2(model);
  Subject subject(job, graph);
  std::vector<at::Tensor> before;
  for (const int index : subject.parameters())
    before.push_back(subject.store.tensor(index).clone());
  subject.whole.run(subject.batches.read(0, 1), {}, false);
  subject.optimizer.step(subject.store, subject.parameters());
  size_t i = 0;
  for (const int index : subject.parameters()) {
    EXPECT_TRUE(subject.store.tensor(index).equal(before[i++]));
  }
}

}  // namespace
}  // namespace penstock::profiler
