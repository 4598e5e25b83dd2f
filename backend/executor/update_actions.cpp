#include "backend/executor/update_actions.hpp"

#include "backend/executor/transfers.hpp"
#include "graph/analysis/loss.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock {

namespace {

/// Collectives wait for other ranks, so nothing that those need may come after them.
int summing_reduction(const std::vector<Action>& actions) {
  int position = -1;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind == Kind::reduce_grad) position = static_cast<int>(i);
    if (is_compute(actions[i].kind) || is_send(actions[i].kind) || is_receive(actions[i].kind)) {
      position = -1;
    }
  }
  return position;
}

int last_optimizer(const std::vector<Action>& actions) {
  int last = -1;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind == Kind::optimizer) last = static_cast<int>(i);
  }
  return last;
}

}  // namespace

UpdateActions::UpdateActions(Rank& rank)
    : rank_(rank),
      trained_(tensors_of_loss(rank.model.graph, rank.model.analysis)),
      sync_(rank.model.graph, rank.model.slicing, rank.model.program,
            static_cast<int>(rank.model.plan.data_parallel), rank.communicator.rank(),
            first_broadcast_tag(rank.model.program, rank.model.slicing), trained_),
      optimizer_(rank.model.plan.job.optimizer,
                 parameter_settings(rank.model.plan.job.optimizer, rank.model.graph)),
      sum_at_(summing_reduction(rank.actions())),
      broadcast_at_(last_optimizer(rank.actions())) {}

void UpdateActions::begin_step(int64_t step) {
  step_ = step;
  summed_ = false;
  updated_.clear();
}

void UpdateActions::run(size_t position) {
  const Action& action = rank_.actions()[position];
  if (action.kind == Kind::reduce_grad) {
    if (static_cast<int>(position) == sum_at_) sum_gradients();
    return;
  }
  update(action.stage);
  if (static_cast<int>(position) == broadcast_at_) sync_.broadcast(rank_.store, rank_.communicator);
}

void UpdateActions::sum_gradients() {
  if (summed_) return;
  summed_ = true;
  rank_.finish_stages();
  rank_.store.set_gradients(rank_.captured_gradients);
  sync_.sum(rank_.store, rank_.communicator);
}

void UpdateActions::update(int stage) {
  std::set<int> due;
  for (const int tensor : rank_.model.slicing.stages[static_cast<size_t>(stage)].tensors) {
    if (trains(tensor) && updated_.insert(tensor).second) due.insert(tensor);
  }
  const Job& job = rank_.model.plan.job;
  optimizer_.step(rank_.store, due, learning_rate_factor(job.optimizer, step_, job.steps));
}

int64_t UpdateActions::missing_state_bytes() {
  const Job& job = rank_.model.plan.job;
  int64_t bytes = 0;
  for (const int tensor : rank_.store.indices()) {
    if (!trains(tensor) || optimizer_.states().contains(tensor)) continue;
    const StoredTensor& stored = rank_.model.graph.tensors[static_cast<size_t>(tensor)];
    bytes += training_bytes(job, stored) - gradient_bytes(job, stored);
  }
  return bytes;
}

}  // namespace penstock
