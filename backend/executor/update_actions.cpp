#include "backend/executor/update_actions.hpp"

#include "backend/executor/transfers.hpp"
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

/// By position of the last B or W of a stage whose REDUCE_GRAD is the rank's next action but
/// transfers: that stage.
std::map<size_t, int> last_backwards(const std::vector<Action>& actions) {
  std::map<size_t, int> stages;
  std::optional<size_t> compute;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (is_compute(actions[i].kind)) compute = i;
    if (actions[i].kind != Kind::reduce_grad || !compute) continue;
    for_each_part(actions[*compute], [&](const Action& part) {
      const bool ends = part.kind == Kind::backward || part.kind == Kind::backward_weight;
      if (ends && part.stage == actions[i].stage) stages[*compute] = part.stage;
    });
  }
  return stages;
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
      last_backwards_(last_backwards(rank.actions())),
      sync_(rank.model.plan, rank.model.slicing, rank.model.program,
            first_broadcast_tag(rank.model.program, rank.model.slicing), rank.trained, rank.buckets,
            rank.store, rank.shards, rank.communicator),
      optimizer_(rank.model.plan.job.optimizer,
                 parameter_settings(rank.model.plan.job.optimizer, rank.model.graph),
                 rank.shards.parts()),
      sum_at_(summing_reduction(rank.actions())),
      publish_at_(last_optimizer(rank.actions())) {}

void UpdateActions::begin_step(int64_t step, std::optional<double> learning_rate) {
  step_ = step;
  learning_rate_ = learning_rate;
  summed_ = false;
  updated_.clear();
  sync_.reduction().begin_step();
}

void UpdateActions::before_backward(size_t position) {
  const auto last = last_backwards_.find(position);
  if (last == last_backwards_.end()) return;
  sync_.reduction().watch(last->second, rank_.stages.at(last->second)->gradient_uses());
}

void UpdateActions::run(size_t position) {
  const Action& action = rank_.actions()[position];
  if (action.kind == Kind::reduce_grad) return reduce(position);
  update(action.stage);
  if (static_cast<int>(position) == publish_at_) sync_.publish();
}

void UpdateActions::reduce(size_t position) {
  const int stage = rank_.actions()[position].stage;
  rank_.finish_stage(stage);
  rank_.store.set_gradients(rank_.captured_gradients);
  sync_.reduction().end_stage(stage);
  if (static_cast<int>(position) == sum_at_) sum_gradients();
}

void UpdateActions::sum_gradients() {
  if (summed_) return;
  summed_ = true;
  rank_.finish_stages();
  rank_.store.set_gradients(rank_.captured_gradients);
  sync_.sum();
}

void UpdateActions::update(int stage) {
  std::set<int> due;
  for (const int tensor : rank_.model.slicing.stages[static_cast<size_t>(stage)].tensors) {
    if (trains(tensor) && updated_.insert(tensor).second) due.insert(tensor);
  }
  const Job& job = rank_.model.plan.job;
  if (learning_rate_) return optimizer_.step_at(rank_.store, due, *learning_rate_);
  optimizer_.step(rank_.store, due, learning_rate_factor(job.optimizer, step_, job.steps));
}

int64_t UpdateActions::missing_state_bytes() {
  const Job& job = rank_.model.plan.job;
  int64_t bytes = 0;
  for (const int tensor : rank_.store.indices()) {
    if (!trains(tensor) || optimizer_.states().contains(tensor)) continue;
    const StoredTensor& stored = rank_.model.graph.tensors[static_cast<size_t>(tensor)];
    const int64_t whole = training_bytes(job, stored) - gradient_bytes(job, stored);
    const auto part = rank_.shards.parts().find(tensor);
    if (part == rank_.shards.parts().end()) {
      bytes += whole;
    } else if (stored.elements() > 0) {
      bytes += whole / stored.elements() * part->second.elements();
    }
  }
  return bytes;
}

}  // namespace penstock
