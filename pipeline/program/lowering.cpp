// Lowering by a sweep over the ranks.
//
// Each turn of the sweep offers every rank, in ascending order, one action. A rank whose head
// action has its inputs takes it, its SENDs follow, and each matching RECV goes to the receiver's
// list at the same moment: so any two ranks list their mutual transfers in the same order, and that
// moment's order is an order in which the program can run.
//
//   rank 0   0F0 0SEND_F0           0F1 0SEND_F1               0RECV_B0 0B0
//   rank 1          1RECV_F0 1F0           1RECV_F1 1B0 1SEND_B0            1F1
//
// Ranks that could not take their head are not visited again before a value for it arrives, so the
// time is linear in the number of actions.
#include "pipeline/program/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "pipeline/program/check.hpp"
#include "pipeline/program/flow_table.hpp"
#include "pipeline/program/turns.hpp"

namespace penstock {

namespace {

class Sweep {
 public:
  Sweep(const Program& compute, const std::vector<Flow>& flows)
      : compute_(compute), table_(flows, compute.rank_of_stage), turns_(compute.rank_count()) {
    const size_t cells = compute.rank_of_stage.size() * static_cast<size_t>(compute.microbatches);
    activations_missing_.resize(cells);
    gradients_missing_.resize(cells);
    for (int flow = 0; flow < table_.size(); ++flow) {
      for (int m = 0; m < compute.microbatches; ++m) {
        ++activations_missing_[cell(table_[flow].to, m)];
        gradients_missing_[cell(table_[flow].from, m)] += table_[flow].gradient;
      }
    }
    next_.resize(compute.ranks.size());
    lowered_.rank_of_stage = compute.rank_of_stage;
    lowered_.microbatches = compute.microbatches;
    lowered_.ranks.resize(compute.ranks.size());
    for (size_t rank = 0; rank < compute.ranks.size(); ++rank) {
      lowered_.ranks[rank].reserve(3 * compute.ranks[rank].size());  // each with a SEND and a RECV
    }
  }

  Program run(std::string_view place) {
    for (int rank = 0; rank < compute_.rank_count(); ++rank) offer(rank);
    for (running_ = turns_.next(); running_ >= 0; running_ = turns_.next()) {
      const auto rank = static_cast<size_t>(running_);
      take(compute_.ranks[rank][next_[rank]++]);
      offer(running_);
    }
    refuse_deadlock(place);
    return std::move(lowered_);
  }

 private:
  size_t cell(int stage, int microbatch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(compute_.microbatches) +
           static_cast<size_t>(microbatch);
  }

  const Action* head(int rank) const {
    const auto& actions = compute_.ranks[static_cast<size_t>(rank)];
    const size_t next = next_[static_cast<size_t>(rank)];
    return next < actions.size() ? &actions[next] : nullptr;
  }

  bool ready(const Action& action) const {
    bool all = true;
    for_each_part(action, [&](const Action& part) {
      const size_t at = cell(part.stage, part.microbatch);
      if (part.kind == Kind::forward) all = all && activations_missing_[at] == 0;
      if (is_input_backward(part.kind)) all = all && gradients_missing_[at] == 0;
    });
    return all;
  }

  /// Asks for a turn of the rank if it can take its head action.
  void offer(int rank) {
    const Action* action = head(rank);
    if (action != nullptr && ready(*action)) turns_.ask(rank);
  }

  void take(const Action& action) {
    lowered_.ranks[static_cast<size_t>(running_)].push_back(action);
    for_each_part(action, [&](const Action& part) {
      if (part.kind == Kind::forward) hand_on_activations(part);
      if (is_input_backward(part.kind)) hand_back_gradients(part);
    });
  }

  void hand_on_activations(const Action& forward) {
    for (int flow : table_.out_of(forward.stage)) {
      const int to = table_[flow].to;
      if (!table_.local(flow)) transfer(forward, to, Kind::send_forward, Kind::recv_forward);
      arrive(activations_missing_[cell(to, forward.microbatch)], to);
    }
  }

  void hand_back_gradients(const Action& backward) {
    const std::vector<int>& flows = table_.into(backward.stage);
    for (auto flow = flows.rbegin(); flow != flows.rend(); ++flow) {
      if (!table_[*flow].gradient) continue;
      const int to = table_[*flow].from;
      if (!table_.local(*flow)) transfer(backward, to, Kind::send_backward, Kind::recv_backward);
      arrive(gradients_missing_[cell(to, backward.microbatch)], to);
    }
  }

  void transfer(const Action& producer, int to, Kind send_kind, Kind receive_kind) {
    Action send{producer.stage, send_kind, producer.microbatch};
    Action receive{to, receive_kind, producer.microbatch};
    if (peer_stage(send) != to) send.peer = to;
    if (peer_stage(receive) != producer.stage) receive.peer = producer.stage;
    lowered_.ranks[static_cast<size_t>(running_)].push_back(send);
    lowered_.ranks[static_cast<size_t>(rank_of(to))].push_back(receive);
  }

  void arrive(int& missing, int stage) {
    --missing;
    const int rank = rank_of(stage);
    if (missing == 0 && rank != running_) offer(rank);
  }

  int rank_of(int stage) const { return compute_.rank_of_stage[static_cast<size_t>(stage)]; }

  void refuse_deadlock(std::string_view place) const {
    std::string waiting;
    int count = 0;
    for (int rank = 0; rank < compute_.rank_count(); ++rank) {
      const Action* action = head(rank);
      if (action == nullptr) continue;
      if (++count <= 8) waiting += fmt::format("\n    rank {} at {}", rank, to_string(*action));
    }
    if (count == 0) return;
    if (count > 8) waiting += fmt::format("\n    and {} more", count - 8);
    throw InputError(
        place,
        fmt::format("the program deadlocks; these wait for inputs that never come:{}", waiting),
        "Order the actions so that what an action needs comes before it on every rank.");
  }

  const Program& compute_;
  const FlowTable table_;
  Program lowered_;
  std::vector<int> activations_missing_, gradients_missing_;  // by cell
  std::vector<size_t> next_;                                  // by rank
  Turns turns_;
  int running_ = -1;
};

}  // namespace

Program lower(const Program& compute, const std::vector<Flow>& flows,
              const LoweringOptions& options) {
  check_compute(compute, options.place);
  return add_updates(Sweep(compute, flows).run(options.place), options);
}

std::vector<Flow> chain_flows(int stages) {
  std::vector<Flow> flows;
  for (int stage = 1; stage < stages; ++stage) flows.push_back({stage - 1, stage});
  return flows;
}

bool is_lowered(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& actions) {
    return !std::ranges::all_of(actions, is_compute, &Action::kind);
  });
}

}  // namespace penstock
