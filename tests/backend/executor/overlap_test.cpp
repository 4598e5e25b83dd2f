// OVERLAP_F_B: the forward's activations are sent before the backward computes.
#include <gmock/gmock.h>

#include <map>
#include <utility>

#include "backend/executor/executor.hpp"
#include "graph/analysis/analysis.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/backend/communication/forwarding.hpp"
#include "tests/backend/executor/random_data.hpp"
#include "tests/backend/executor/run.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

/// Records the action of its rank's program during which each activation is sent.
class SendRecorder final : public test::Forwarding {
 public:
  explicit SendRecorder(Communicator& inner) : inner_(inner) {}
  std::unique_ptr<Transfer> send(PeerChannel channel, const at::Tensor& tensor, int tag) override {
    if (!channel.gradients) sent_during.push_back(position);
    return inner_.send(channel, tensor, tag);
  }

  int position = -1;
  std::vector<int> sent_during;

 private:
  Communicator& inner() const override { return inner_; }
  Communicator& inner_;
};

TEST(Overlap, SendsActivationsBetweenItsForwardAndItsBackward) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const test::TemporaryFolder folder;
  const std::string data_file = test::random_data(folder, model, Loss::cross_entropy);
  const Plan plan = test::plan_of(model, data_file, {"", "layer1", "layer2", "output_proj"}, 6, 2,
                                  "dualpipev", {0, 1, 1, 0});
  const Graph graph = read_pt2(model);
  const Analysis analysis = analyse(graph);
  const Slicing slicing = slice(plan, graph, analysis);
  const Program program = delay_receives(lowered_program(plan, slicing));
  const Data data(plan.job, graph, true);
  std::vector<std::vector<int>> sent_during(2);
  test::run_ranks(make_in_process(2), [&](Communicator& communicator) {
    SendRecorder recorder(communicator);
    Executor executor({plan, graph, analysis, slicing, program}, data, recorder);
    executor.on_action = [&](int64_t, int position) { recorder.position = position; };
    executor.run_step(0);
    sent_during[static_cast<size_t>(communicator.rank())] = recorder.sent_during;
  });
  int overlaps = 0;
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::vector<Action>& actions = program.ranks[rank];
    size_t sends = 0;
    for (const Action& action : actions) sends += action.kind == Kind::send_forward;
    EXPECT_EQ(sent_during[rank].size(), sends) << "each is sent once";
    for (size_t at = 0; at < actions.size(); ++at) {
      if (actions[at].kind != Kind::overlap) continue;
      const bool sends_on = at + 1 < actions.size() && actions[at + 1].kind == Kind::send_forward;
      EXPECT_EQ(std::ranges::count(sent_during[rank], static_cast<int>(at)), sends_on ? 1 : 0);
      overlaps += sends_on;
    }
  }
  EXPECT_GE(overlaps, 3);
}

}  // namespace
}  // namespace penstock
