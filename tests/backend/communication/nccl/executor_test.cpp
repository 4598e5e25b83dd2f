// Training over the NCCL communicator, on a fake of NCCL that moves real tensors.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "backend/executor/executor.hpp"
#include "graph/pt2/pt2.hpp"
#include "pipeline/program/lowering.hpp"
#include "pipeline/program/schedule.hpp"
#include "tests/backend/communication/forwarding.hpp"
#include "tests/backend/communication/nccl/communicators.hpp"
#include "tests/backend/executor/random_data.hpp"
#include "tests/backend/executor/run.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using test::plan_of;
using test::run_plan;

struct Case {
  const char* model;
  const char* schedule;
  std::vector<std::string> begins;
  std::vector<int> ranks;
  int replicas;
};

class NcclTraining : public ::testing::TestWithParam<Case> {};

const std::vector<std::string> kBlocks{"", "transformer.h.0.mlp", "transformer.h.1",
                                       "transformer.h.1.mlp"};
const std::vector<std::string> kFour{"", "layer1", "layer2", "output_proj"};
const std::vector<std::string> kT5{"", "encoder.block.1", "decoder.block.0", "decoder.block.1"};
const std::vector<std::string> kUnet{"", "down.1", "up.0", "up.1"};
const std::vector<int> kLoop{0, 1, 0, 1}, kV{0, 1, 1, 0};
INSTANTIATE_TEST_SUITE_P(Each, NcclTraining,
                         ::testing::Values(Case{"pippy", "1f1b", {"", "layer1"}, {0, 1}, 2},
                                           Case{"pippy", "zb-h1", kFour, {0, 1, 2, 3}, 1},
                                           Case{"pippy", "interleaved-1f1b", kFour, kLoop, 1},
                                           Case{"pippy", "dualpipev", kFour, kV, 1},
                                           Case{"t5", "zbv", kT5, kV, 1},
                                           Case{"unet", "interleaved-zb", kUnet, kLoop, 1}),
                         [](const auto& instance) {
                           const Case& each = instance.param;
                           std::string name = fmt::format("{}_{}", each.model, each.schedule);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(NcclTraining, GivesTheSameBitsAsThreadsThatShareMemory) {
  PENSTOCK_MODEL(model, std::string(GetParam().model) + "-f64");
  const test::TemporaryFolder folder;
  const std::string data = test::random_data(folder, model, Loss::cross_entropy);
  Plan plan = plan_of(model, data, GetParam().begins, 4, 2, GetParam().schedule, GetParam().ranks);
  plan.data_parallel = GetParam().replicas;
  plan.job.global_batch *= plan.data_parallel;
  const auto expected = run_plan(plan, 2);
  const auto run = run_plan(plan, 2, false, test::make_fake_nccl);
  EXPECT_EQ(run.losses, expected.losses);
  EXPECT_EQ(test::difference(run.gradients, expected.gradients), 0);
  EXPECT_EQ(test::difference(run.parameters, expected.parameters), 0);
}

struct Groups {
  const char* schedule;
  std::vector<std::string> begins;
  std::vector<int> ranks;
  int replicas, parts;
};

/// Conversions, transfers between equal parts, and sums over replicas and over all parts.
TEST(NcclTensorGroups, TrainWithTheSameBits) {
  PENSTOCK_MODEL(model, "gpt2");
  const test::TemporaryFolder folder;
  const std::string data = test::random_data(folder, model, Loss::cross_entropy);
  for (const Groups& each :
       {Groups{"1f1b", {"", "transformer.h.1"}, {0, 1}, 2, 2}, Groups{"zb-h1", {""}, {0}, 1, 4},
        Groups{"zbv", kBlocks, {0, 1, 1, 0}, 1, 2}}) {
    SCOPED_TRACE(each.schedule);
    Plan plan = plan_of(model, data, each.begins, 4, 2, each.schedule, each.ranks);
    plan.tensor_parallel = each.parts;
    plan.data_parallel = each.replicas;
    plan.job.global_batch *= plan.data_parallel;
    plan.sharding.values = {{"transformer.h.?", sharding::Layout::split(1)}};
    plan.sharding.gathers_again = true;
    const auto expected = run_plan(plan, 2);
    const auto run = run_plan(plan, 2, false, test::make_fake_nccl);
    EXPECT_EQ(run.losses, expected.losses);
    EXPECT_EQ(test::difference(run.gradients, expected.gradients), 0);
    EXPECT_EQ(test::difference(run.parameters, expected.parameters), 0);
  }
}

TEST(NcclSharing, ShardsOptimizerStateWithTheSameBits) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const test::TemporaryFolder folder;
  const std::string data = test::random_data(folder, model, Loss::cross_entropy);
  Plan plan = plan_of(model, data, {"", "layer1"}, 2, 2, "1f1b");
  plan.data_parallel = 3;
  plan.job.global_batch *= plan.data_parallel;
  const auto expected = run_plan(plan, 2);
  plan.optimizer_state = OptimizerState::sharded;
  const auto run = run_plan(plan, 2, false, test::make_fake_nccl);
  EXPECT_EQ(run.losses, expected.losses);
  EXPECT_EQ(test::difference(run.parameters, expected.parameters), 0);
}

TEST(NcclSharing, TransmitsSharedParametersWithTheSameBits) {
  PENSTOCK_MODEL(model, "iterative-f64");
  const test::TemporaryFolder folder;
  const std::string data = test::random_data(folder, model, Loss::cross_entropy);
  const std::string weight = "iter_block.0.weight", bias = "iter_block.0.bias";
  Plan plan = plan_of(model, data, {"", "iter_block@1", "iter_block@2"}, 4, 2, "1f1b");
  plan.shared_parameters = {{weight, "transmit"}};  // and the bias replicated
  for (const int parts : {1, 2}) {
    plan.tensor_parallel = parts;
    const auto expected = run_plan(plan, 3);
    const auto run = run_plan(plan, 3, false, test::make_fake_nccl);
    EXPECT_EQ(run.losses, expected.losses);
    EXPECT_EQ(test::difference(run.parameters, expected.parameters), 0);
    for (int rank = parts; rank < 3 * parts; ++rank) {
      EXPECT_FALSE(run.stepped[rank].contains(weight));
      EXPECT_TRUE(run.stepped[rank].contains(bias));
      EXPECT_TRUE(run.copies[rank].at(weight).equal(run.copies[rank % parts].at(weight)));
    }
  }
}

/// Counts the actions that are enqueued when each receive of a step is posted.
class PostCounter : public test::Forwarding {
 public:
  PostCounter(Communicator& inner, bool spins) : inner_(inner), spins_(spins) {}
  std::unique_ptr<Transfer> receive(PeerChannel channel, at::Tensor& tensor, int tag) override {
    posted[tag] = static_cast<size_t>(position);
    return Forwarding::receive(channel, tensor, tag);
  }
  bool receives_spin() const override { return spins_; }

  int position = 0;              // of the action that runs: those before it are enqueued
  std::map<int, size_t> posted;  // by tag

 private:
  Communicator& inner() const override { return inner_; }
  Communicator& inner_;
  bool spins_;
};

/// Receives of a step of 1F1B that were posted before all that their messages depend on was
/// enqueued.
int early_receives(const std::string& model, bool spins) {
  const test::TemporaryFolder folder;
  const Plan plan = plan_of(model, test::random_data(folder, model, Loss::cross_entropy), kFour, 6,
                            2, "1f1b", {0, 1, 2, 3});
  const Graph graph = read_pt2(model);
  const Analysis analysis = analyse(graph);
  const Slicing slicing = slice(plan, graph, analysis);
  const Program program = delay_receives(lowered_program(plan, slicing));
  const Data data(plan.job, graph);
  std::atomic<int> early = 0;
  test::run_ranks(make_in_process(4), [&](Communicator& inner) {
    PostCounter counter(inner, spins);
    Executor executor({plan, graph, analysis, slicing, program}, data, counter);
    executor.on_action = [&](int64_t, int position) {
      if (position >= 0) counter.position = position;
    };
    executor.run_step(0);
    const RankTransfers transfers = resolve_transfers(program, slicing, inner.rank());
    for (const auto& [channel, positions] : transfers.receives) {
      for (const size_t position : positions) {
        const ResolvedTransfer& received = transfers.actions.at(position);
        // An action's own receives are posted when it has run.
        const size_t enqueued = counter.posted.at(received.messages.front().tag) + 1;
        if (enqueued < received.needs) ++early;
      }
    }
  });
  return early;
}

TEST(NcclReceives, AreNotPostedBeforeWhatTheirMessageNeeds) {
  PENSTOCK_MODEL(model, "pippy-f64");
  EXPECT_EQ(early_receives(model, true), 0);
  EXPECT_GT(early_receives(model, false), 0) << "where nothing spins they are posted ahead";
}

TEST(NcclReceives, NeedWhatTheirSenderWaitsFor) {
  // Rank 0: F0 SEND F1 SEND RECV B0 RECV B1; the gradient of microbatch 0 needs its activation.
  const Program program = lower(gpipe.generate({2, 1, 2}), {{0, 1}});
  Slicing slicing;
  slicing.stages.resize(2);
  slicing.edges = {{0, 1, {{7, true}}}};
  const RankTransfers zero = resolve_transfers(program, slicing, 0);
  const std::vector<size_t> positions = zero.receives.at({1, true});
  const std::vector<size_t> sends = zero.sends.at({1, false});
  for (size_t m = 0; m < 2; ++m) {
    // GPipe's first gradient leaves rank 1 when all activations have arrived.
    EXPECT_EQ(zero.actions.at(positions[m]).needs, sends[1] + 1);
  }
  const RankTransfers one = resolve_transfers(program, slicing, 1);
  for (const size_t position : one.receives.at({0, false})) {
    EXPECT_EQ(one.actions.at(position).needs, 0U) << "an activation needs nothing of rank 1";
  }
}

/// Parameters, buffers and loss after a step.
test::Tensors after_a_step(const std::string& model, const std::string& data_file, bool warm_up) {
  const Plan plan = plan_of(model, data_file, {"", "middle"}, 2, 2, "1f1b");
  const Graph graph = read_pt2(model);
  const Analysis analysis = analyse(graph);
  Plan with_loss = plan;
  with_loss.job.loss = Loss::mse;
  const Slicing slicing = slice(with_loss, graph, analysis);
  const Program program = delay_receives(lowered_program(with_loss, slicing));
  const Data data(with_loss.job, graph);
  test::Tensors result;
  std::mutex mutex;
  test::run_ranks(make_in_process(2), [&](Communicator& communicator) {
    Executor executor({with_loss, graph, analysis, slicing, program}, data, communicator);
    if (warm_up) executor.warm_up(0);
    const double loss = executor.run_step(0).loss;
    const std::scoped_lock lock(mutex);
    result["loss"] = at::full({1}, loss, at::kDouble);
    for (const int index : executor.store().indices()) {
      result[graph.tensors[index].name] = executor.store().tensor(index).clone();
    }
  });
  return result;
}

TEST(WarmUp, LeavesParametersBuffersAndLossAsTheyWere) {
  PENSTOCK_MODEL(model, "unet-f64");
  const test::TemporaryFolder folder;
  const std::string data = test::random_data(folder, model, Loss::mse);
  ASSERT_FALSE(read_pt2(model).updates.empty()) << "no buffer is updated";
  const auto cold = after_a_step(model, data, false), warm = after_a_step(model, data, true);
  ASSERT_EQ(cold.size(), warm.size());
  for (const auto& [name, tensor] : cold) EXPECT_TRUE(warm.at(name).equal(tensor)) << name;
}

}  // namespace
}  // namespace penstock
