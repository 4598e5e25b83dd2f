#include "estimate/transients.hpp"

#include <algorithm>
#include <set>

#include "estimate/gradients.hpp"
#include "estimate/work.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock {

namespace {

/// The whole model at one microbatch size.
class ModelMemory {
 public:
  ModelMemory(const EstimateModel& model, const KeptMemory& kept, int64_t batch)
      : model_(model), kept_(kept), batch_(batch) {}

  std::vector<MemoryChange> forward() const {
    std::vector<MemoryChange> changes;
    for (OperatorId id = 0; id < model_.operators(); ++id) {
      int64_t made = kept_.of(id).own_bytes + kept_.loss_bytes(id);
      for (const ValueId value : kept_.allocated(model_.op(id))) made += bytes(value);
      changes.push_back({made - dropped_after(id), made});
    }
    return changes;
  }

  std::vector<MemoryChange> backward(Loss loss) const {
    LiveGradients gradients(model_, batch_);
    std::vector<MemoryChange> changes(static_cast<size_t>(model_.operators()));
    for (OperatorId id = model_.operators() - 1; id >= 0; --id) {
      const Operator& op = model_.op(id);
      MemoryChange& change = changes[static_cast<size_t>(id)];
      int64_t before = gradients.bytes();
      if (kept_.makes_loss(id)) {
        gradients.enter(loss_input(model_), true);
        // The gradient that nll_loss fills, until log_softmax has computed its own from it.
        // A loss of split classes computes it from the probabilities alone.
        const bool fills = loss == Loss::cross_entropy && !sharding::split_classes(model_.graph());
        const int64_t filled = fills ? bytes(loss_input(model_)) : 0;
        const int64_t made = gradients.bytes() - before;
        change = {made - kept_.loss_bytes(id) - freed_by_loss(), made + filled};
        before = gradients.bytes();
      }
      if (!model_.differentiated(op)) continue;
      gradients.make_operands(op);
      const Gathered again = gathered_by(id);
      const int64_t peak = gradients.bytes() - before + weight_gradient_bytes(model_, op, batch_);
      gradients.drop_results(op);
      const int64_t net = gradients.bytes() - before - freed_by(id);
      change = change.then({again.made, again.made}).then({net - again.dropped, peak});
    }
    return changes;
  }

 private:
  int64_t bytes(ValueId id) const { return model_.value(id).bytes(batch_); }

  /// Bytes of values that are read for the last time here, or never, and not kept.
  int64_t dropped_after(OperatorId id) const {
    std::set<ValueId> candidates;
    for (const ValueId read : model_.op(id).reads()) candidates.insert(model_.root(read));
    for (const ValueId value : kept_.allocated(model_.op(id))) candidates.insert(value);
    int64_t sum = 0;
    for (const ValueId root : candidates) {
      if (!model_.counts(root) || model_.value(root).producer < 0) continue;
      if (kept_.last_reader(root) <= id && !kept_.is_kept(root)) sum += bytes(root);
    }
    return sum;
  }

  /// Bytes that an operator's backward is the first to gather again, and the last to need.
  struct Gathered {
    int64_t made = 0, dropped = 0;
  };
  Gathered gathered_by(OperatorId id) const {
    Gathered again;
    std::set<ValueId> needed;
    for (const ValueId value : kept_.of(id).values) needed.insert(model_.root(value));
    for (const ValueId root : needed) {
      const std::vector<OperatorId>& users = kept_.needed_again(root);
      if (users.empty()) continue;
      if (users.back() == id) again.made += bytes(root);
      if (users.front() == id) again.dropped += bytes(root);
    }
    return again;
  }

  /// The model's output, where nobody but the loss kept it.
  int64_t freed_by_loss() const {
    const ValueId root = model_.root(loss_input(model_));
    return kept_.first_keeper(root) == model_.operators() ? bytes(root) : 0;
  }

  int64_t freed_by(OperatorId id) const {
    int64_t sum = kept_.of(id).own_bytes;
    for (const ValueId root : kept_.of(id).roots)
      if (kept_.first_keeper(root) == id) sum += bytes(root);
    return sum;
  }

  const EstimateModel& model_;
  const KeptMemory& kept_;
  const int64_t batch_;
};

}  // namespace

int64_t weight_gradient_bytes(const EstimateModel& model, const Operator& op, int64_t batch) {
  int64_t sum = 0;
  if (!model.works(op)) return sum;
  for (const ValueId parameter : model.parameter_operands(op))
    sum += model.value(parameter).bytes(batch);
  return sum;
}

std::vector<MemoryChange> forward_changes(const EstimateModel& model, const KeptMemory& kept,
                                          int64_t batch) {
  return ModelMemory(model, kept, batch).forward();
}

std::vector<MemoryChange> backward_changes(const EstimateModel& model, const KeptMemory& kept,
                                           Loss loss, int64_t batch) {
  return ModelMemory(model, kept, batch).backward(loss);
}

}  // namespace penstock
