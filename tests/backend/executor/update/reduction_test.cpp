// Sums of gradients over ranks: the same bits whether they run beside the backwards or behind them,
// and begun in the order in which backwards make gradients final.
#include "backend/executor/update/reduction.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/executor/executor.hpp"
#include "graph/analysis/analysis.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/backend/communication/forwarding.hpp"
#include "tests/backend/executor/every_schedule.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using test::plan_of;
using test::run_plan;
using test::RunResult;

constexpr int64_t small_bucket = 4096;  // several of a stage

Plan replicated(Plan plan, int replicas, bool overlap) {
  plan.data_parallel = replicas;
  plan.job.global_batch = replicas * plan.microbatches * plan.microbatch;
  plan.all_reduce = {small_bucket, overlap};
  return plan;
}

void expect_same_bits(const test::Tensors& a, const test::Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.equal(b.at(name))) << name;
}

/// Runs a plan both ways; returns one of the results.
RunResult expect_overlap_changes_nothing(const Plan& plan, int replicas,
                                         test::Communicators (*make)(int) = make_in_process) {
  const RunResult beside = run_plan(replicated(plan, replicas, true), 2, false, make);
  const RunResult behind = run_plan(replicated(plan, replicas, false), 2, false, make);
  EXPECT_EQ(beside.losses, behind.losses);
  expect_same_bits(beside.gradients, behind.gradients);
  expect_same_bits(beside.parameters, behind.parameters);
  for (const test::Tensors& copies : beside.copies) {
    for (const auto& [name, tensor] : copies)
      EXPECT_TRUE(tensor.equal(beside.parameters.at(name))) << name;
  }
  return beside;
}

class ReductionOfEverySchedule : public test::WithSchedule {};

TEST_P(ReductionOfEverySchedule, HasTheSameBitsBesideTheBackwards) {
  PENSTOCK_MODEL(model, test::chain.model);
  expect_overlap_changes_nothing(split(test::chain, model, 4), 2);
}

TEST_P(ReductionOfEverySchedule, HasThemOverGloo) {
  PENSTOCK_MODEL(model, test::chain.model);
  expect_overlap_changes_nothing(split(test::chain, model, 4), 3, test::make_gloo_threads);
}

TEST_P(ReductionOfEverySchedule, HasThemWithTiedWeightsClippingAndRecompute) {
  PENSTOCK_MODEL(model, test::tied.model);
  Plan plan = split(test::tied, model, 4);
  plan.job.optimizer.clip_norm = 0.1;
  plan.stages.front().recompute.first_units = 1;
  plan.stages.back().recompute.whole = true;
  expect_overlap_changes_nothing(plan, 2);
}

INSTANTIATE_TEST_SUITE_P(Schedules, ReductionOfEverySchedule, ::testing::ValuesIn(schedules()),
                         test::name_of);

/// Records during which action of its rank's program each sum begins.
class SumRecorder final : public test::Forwarding {
 public:
  explicit SumRecorder(Communicator& inner) : inner_(inner) {}
  std::unique_ptr<Transfer> start_all_reduce(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    if (action != nullptr)
      began.push_back(to_string(*action) + " x " + std::to_string(tensor.numel()));
    return inner_.start_all_reduce(tensor, ranks);
  }

  const Action* action = nullptr;
  std::vector<std::string> began;

 private:
  Communicator& inner() const override { return inner_; }
  Communicator& inner_;
};

/// By rank of the run: the actions that its sums begin in, with their sizes.
std::vector<std::vector<std::string>> begun_sums(const Plan& plan) {
  const Graph graph = read_pt2(plan.job.model);
  const Analysis analysis = analyse(graph);
  const Slicing slicing = slice(plan, graph, analysis);
  const Program program = delay_receives(lowered_program(plan, slicing));
  const Data data(plan.job, graph, true);
  const int size = plan.ranks() * static_cast<int>(plan.data_parallel);
  std::vector<std::vector<std::string>> begun(static_cast<size_t>(size));
  test::run_ranks(make_in_process(size), [&](Communicator& communicator) {
    SumRecorder recorder(communicator);
    Executor executor({plan, graph, analysis, slicing, program}, data, recorder);
    executor.on_action = [&](int64_t, int position) {
      const auto& actions = program.ranks[static_cast<size_t>(communicator.rank() % plan.ranks())];
      recorder.action = position < 0 ? nullptr : &actions[static_cast<size_t>(position)];
      if (position >= 0 && recorder.action->kind == Kind::optimizer) recorder.action = nullptr;
    };
    executor.run_step(0);
    begun[static_cast<size_t>(communicator.rank())] = recorder.began;
  });
  return begun;
}

class BegunSums : public ::testing::Test {
 protected:
  std::vector<std::vector<std::string>> begun(const std::string& model, const std::string& schedule,
                                              const std::vector<std::string>& begins,
                                              const std::vector<int>& ranks, bool overlap) {
    const auto own = std::filesystem::path(model).replace_extension(".data.safetensors");
    const std::string data = std::filesystem::exists(own)
                                 ? own.string()
                                 : test::random_data(folder_, model, Loss::cross_entropy);
    return begun_sums(replicated(plan_of(model, data, begins, 4, 2, schedule, ranks), 2, overlap));
  }
  test::TemporaryFolder folder_;
};

/// `sums` begin in these actions, in this order, several in each.
void expect_begun_in(const std::vector<std::string>& sums,
                     const std::vector<std::string>& actions) {
  std::vector<std::string> found;
  for (const std::string& sum : sums) {
    const std::string action = sum.substr(0, sum.find(' '));
    if (found.empty() || found.back() != action) found.push_back(action);
  }
  EXPECT_EQ(found, actions);
  EXPECT_GT(sums.size(), actions.size());
}

const std::vector<std::string> four_stages{"", "layer1", "layer2", "output_proj"};

TEST_F(BegunSums, AreThoseOfTheLastBackwardWhileItRuns) {
  PENSTOCK_MODEL(model, "pippy-f64");
  for (const auto& sums : begun(model, "1f1b", {""}, {0}, true)) expect_begun_in(sums, {"0B3"});
  for (const auto& sums : begun(model, "1f1b", {""}, {0}, false))
    expect_begun_in(sums, {"0REDUCE_GRAD"});
}

TEST_F(BegunSums, OfSeveralStagesFollowTheOrderInWhichTheseFinish) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const auto beside = begun(model, "interleaved-1f1b", four_stages, {0, 1, 0, 1}, true);
  expect_begun_in(beside[0], {"2B3", "0B3"});
  const auto behind = begun(model, "interleaved-1f1b", four_stages, {0, 1, 0, 1}, false);
  expect_begun_in(behind[0], {"0REDUCE_GRAD"});
  for (const auto& run : {beside, behind}) {
    EXPECT_EQ(run[0], run[2]);
    EXPECT_EQ(run[1], run[3]);
  }
}

TEST_F(BegunSums, FollowTheWeightsWhereTheBackwardIsSplit) {
  PENSTOCK_MODEL(model, "pippy-f64");
  expect_begun_in(begun(model, "zb-h1", {"", "layer2"}, {0, 1}, true)[0], {"0W3"});
}

TEST_F(BegunSums, OfWhatRanksShareComeLast) {
  PENSTOCK_MODEL(model, "gpt2-f64");
  const auto sums = begun(model, "1f1b", {"", "transformer.h.1"}, {0, 1}, true);
  expect_begun_in(sums[0], {"0B3", "0REDUCE_GRAD"});
  expect_begun_in(sums[1], {"1B3", "1REDUCE_GRAD"});
  EXPECT_EQ(sums[0].back().substr(12), sums[1].back().substr(12)) << "the tied embedding";
}

TEST(Reduction, InBf16GradientsAreSummedInFloat32) {
  PENSTOCK_MODEL(model, "llama-bf16");
  const test::TemporaryFolder folder;
  const std::string data = test::random_data(folder, model, Loss::cross_entropy);
  Plan plan = plan_of(model, data, {""}, 2, 2, "1f1b");
  plan.job.precision = Precision::bf16;
  const RunResult run = expect_overlap_changes_nothing(plan, 2, test::make_gloo_threads);
  for (const auto& [name, gradient] : run.gradients)
    EXPECT_EQ(gradient.scalar_type(), at::kFloat) << name;
}

TEST(Reduction, GradientsAreViewsOfTheirBuckets) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const test::TemporaryFolder folder;
  const Plan plan = replicated(
      plan_of(model, test::random_data(folder, model, Loss::cross_entropy), {""}, 2, 2), 2, true);
  const Graph graph = read_pt2(model);
  const Analysis analysis = analyse(graph);
  const Slicing slicing = slice(plan, graph, analysis);
  const Program program = lowered_program(plan, slicing);
  const Data data(plan.job, graph, true);
  const auto buckets = gradient_buckets(plan, graph, slicing, trainable_tensors(graph), 0);
  ASSERT_GT(buckets.size(), 2U);
  test::run_ranks(make_in_process(2), [&](Communicator& communicator) {
    Executor executor({plan, graph, analysis, slicing, program}, data, communicator);
    for (const int step : {0, 1}) {
      executor.run_step(step);
      for (const GradientBucket& bucket : buckets) {
        const at::Tensor first = executor.store().gradient(bucket.tensors.front());
        const auto bytes = static_cast<int64_t>(first.storage().nbytes());
        EXPECT_GE(bytes, bucket.bytes);
        EXPECT_LT(bytes, bucket.bytes + 64 * static_cast<int64_t>(bucket.tensors.size()));
        for (const int tensor : bucket.tensors)
          EXPECT_TRUE(executor.store().gradient(tensor).is_alias_of(first));
      }
    }
  });
}

}  // namespace
}  // namespace penstock
