#include "planner/estimate_memory.hpp"

#include <algorithm>
#include <set>

#include "planner/estimate_gradients.hpp"
#include "planner/estimate_saved.hpp"
#include "planner/estimate_work.hpp"

namespace penstock {

namespace {

/// What one operator keeps for its backward, as memory.
struct Kept {
  std::vector<ValueId> roots;  // of this microbatch, each once
  int64_t own_bytes = 0;
};

/// One microbatch of a model.
class MicrobatchMemory {
 public:
  MicrobatchMemory(const EstimateModel& model, Loss loss, int64_t batch, bool cuda)
      : model_(model), loss_(loss), batch_(batch), held_(static_cast<size_t>(model.operators())) {
    const size_t values = model.graph().values.size();
    first_keeper_.assign(values, -1);
    last_reader_.assign(values, -1);
    for (OperatorId id = 0; id < model.operators(); ++id) enter(id, cuda);
    enter_loss();
  }

  std::vector<HeldBytes> run(const std::vector<Unit>& units) {
    for (OperatorId id = 0; id < model_.operators(); ++id) count_forward(id);
    count_input();
    for (const Unit& unit : units) {
      walk_forward(unit);
      walk_backward(unit);
    }
    return std::move(held_);
  }

 private:
  int64_t bytes(ValueId id) const { return model_.value(id).bytes(batch_); }
  HeldBytes& held(OperatorId id) { return held_[static_cast<size_t>(id)]; }
  const Kept& kept(OperatorId id) const { return kept_[static_cast<size_t>(id)]; }
  /// The first operator that keeps this memory, or -1; after all operators: the loss.
  OperatorId& first_keeper(ValueId root) { return first_keeper_[static_cast<size_t>(root)]; }
  OperatorId& last_reader(ValueId root) { return last_reader_[static_cast<size_t>(root)]; }

  void enter(OperatorId id, bool cuda) {
    const Operator& op = model_.op(id);
    for (const ValueId read : op.reads()) last_reader(model_.root(read)) = id;
    const SavedForBackward saved = saved_for_backward(model_, op, batch_, cuda);
    Kept& kept = kept_.emplace_back();
    kept.own_bytes = saved.own_bytes;
    for (const ValueId value : saved.values) {
      const ValueId root = model_.root(value);
      if (!model_.counts(root) || std::ranges::find(kept.roots, root) != kept.roots.end()) continue;
      kept.roots.push_back(root);
      if (first_keeper(root) < 0) first_keeper(root) = id;
    }
  }

  void enter_loss() {
    const ValueId input = loss_input(model_);
    if (input < 0) return;
    loss_operator_ = model_.value(input).producer;
    loss_bytes_ = saved_by_loss(model_, loss_, batch_);
    const ValueId root = model_.root(input);
    if (loss_ == Loss::mse && model_.counts(root) && first_keeper(root) < 0)
      first_keeper(root) = model_.operators();
  }

  /// Values that take memory of their own, of those that an operator produces.
  std::vector<ValueId> made(const Operator& op) const {
    std::vector<ValueId> values;
    if (!model_.works(op)) return values;
    for (const ValueId output : op.outputs)
      if (output >= 0 && model_.root(output) == output && model_.counts(output))
        values.push_back(output);
    return values;
  }

  void count_forward(OperatorId id) {
    const Operator& op = model_.op(id);
    for (const ValueId output : op.outputs)
      if (output >= 0) held(id).output += bytes(output);
    held(id).after_forward = kept(id).own_bytes + (id == loss_operator_ ? loss_bytes_ : 0);
    for (const ValueId value : made(op))
      if (first_keeper(value) >= 0) held(id).after_forward += bytes(value);
  }

  /// From the first operator on, so that each tensor counts at the last W.
  void count_input() {
    const std::vector<ValueId> roots = gradient_roots(model_, batch_);
    std::set<ValueId> values, gradients;
    for (OperatorId id = 0; id < model_.operators(); ++id) {
      const Operator& op = model_.op(id);
      if (!model_.differentiated(op) || model_.parameter_operands(op).empty()) continue;
      held(id).after_input = kept(id).own_bytes;
      for (const ValueId root : kept(id).roots)
        if (values.insert(root).second) held(id).after_input += bytes(root);
      for (const ValueId output : op.outputs) {
        if (output < 0 || !model_.requires_grad(output)) continue;
        const ValueId root = roots[static_cast<size_t>(output)];
        if (gradients.insert(root).second) held(id).after_input += bytes(root);
      }
    }
  }

  void walk_forward(const Unit& unit) {
    int64_t level = 0;
    std::vector<int64_t> levels;
    for (OperatorId id = unit.begin; id < unit.end; ++id) {
      level += kept(id).own_bytes + (id == loss_operator_ ? loss_bytes_ : 0);
      for (const ValueId value : made(model_.op(id))) level += bytes(value);
      levels.push_back(level);
      level -= released_after(id, unit);
    }
    for (OperatorId id = unit.begin; id < unit.end; ++id) {
      const int64_t most = levels[static_cast<size_t>(id - unit.begin)];
      held(id).transient_forward = std::max<int64_t>(most - std::max<int64_t>(level, 0), 0);
    }
  }

  /// Of this unit's values those that are read for the last time here, or never, and not kept.
  int64_t released_after(OperatorId id, const Unit& unit) {
    int64_t sum = 0;
    std::set<ValueId> candidates;
    for (const ValueId read : model_.op(id).reads()) candidates.insert(model_.root(read));
    for (const ValueId value : made(model_.op(id))) candidates.insert(value);
    for (const ValueId root : candidates) {
      const OperatorId producer = model_.value(root).producer;
      const bool here = model_.counts(root) && producer >= unit.begin && producer < unit.end &&
                        model_.works(model_.op(producer));
      if (here && last_reader(root) <= id && first_keeper(root) < 0) sum += bytes(root);
    }
    return sum;
  }

  void walk_backward(const Unit& unit) {
    LiveGradients gradients(model_, batch_);
    for (OperatorId id = unit.begin; id < unit.end; ++id)
      for (const ValueId output : model_.op(id).outputs)
        if (output >= 0 && model_.requires_grad(output) && comes_back(output, unit))
          gradients.enter(output, false);
    int64_t released = 0;
    std::vector<int64_t> levels;
    for (OperatorId id = unit.end - 1; id >= unit.begin; --id) {
      const Operator& op = model_.op(id);
      int64_t most = 0;
      if (id == loss_operator_) {
        gradients.enter(loss_input(model_), true);
        if (loss_ == Loss::cross_entropy) most = bytes(loss_input(model_));  // what nll_loss filled
        most += gradients.bytes() - released;
        released += loss_bytes_;
      }
      if (model_.differentiated(op)) {
        gradients.make_operands(op);
        most = std::max(most, gradients.bytes() - released + weight_gradient_bytes(op));
        gradients.drop_results(op);
        released += kept_until(id, unit);
      }
      levels.push_back(most);
    }
    const int64_t after = std::max<int64_t>(gradients.bytes() - released, 0);
    for (OperatorId id = unit.begin; id < unit.end; ++id) {
      const int64_t most = levels[static_cast<size_t>(unit.end - 1 - id)];
      held(id).transient_backward = std::max<int64_t>(most - after, 0);
    }
  }

  /// Later units return its gradient.
  bool comes_back(ValueId value, const Unit& unit) const {
    const OperatorId last = model_.last_reader(value);
    return last >= unit.end && last < model_.operators();
  }

  /// Fresh gradients, until they are added to the stored ones.
  int64_t weight_gradient_bytes(const Operator& op) const {
    int64_t sum = 0;
    if (!model_.works(op)) return sum;
    for (const ValueId parameter : model_.parameter_operands(op)) sum += bytes(parameter);
    return sum;
  }

  /// What its backward sets free: it is the last to run of those that keep it.
  int64_t kept_until(OperatorId id, const Unit& unit) {
    int64_t sum = kept(id).own_bytes;
    for (const ValueId root : kept(id).roots)
      if (first_keeper(root) == id && model_.value(root).producer >= unit.begin) sum += bytes(root);
    return sum;
  }

  const EstimateModel& model_;
  const Loss loss_;
  const int64_t batch_;
  std::vector<HeldBytes> held_;
  std::vector<Kept> kept_;
  std::vector<OperatorId> first_keeper_, last_reader_;  // by root
  OperatorId loss_operator_ = -1;
  int64_t loss_bytes_ = 0;
};

}  // namespace

std::vector<HeldBytes> held_bytes(const EstimateModel& model, const std::vector<Unit>& units,
                                  Loss loss, int64_t batch, bool cuda) {
  return MicrobatchMemory(model, loss, batch, cuda).run(units);
}

HeldBytes held_bytes_of(const EstimateModel& model, const Unit& unit,
                        const std::vector<HeldBytes>& operators, int64_t batch) {
  HeldBytes sum;
  for (OperatorId id = unit.begin; id < unit.end; ++id) {
    const HeldBytes& held = operators[static_cast<size_t>(id)];
    sum.after_forward += held.after_forward;
    sum.after_input += held.after_input;
    sum.transient_forward = std::max(sum.transient_forward, held.transient_forward);
    sum.transient_backward = std::max(sum.transient_backward, held.transient_backward);
    for (const ValueId output : model.op(id).outputs)
      if (output >= 0 && model.last_reader(output) >= unit.end)
        sum.output += model.value(output).bytes(batch);
  }
  return sum;
}

}  // namespace penstock
