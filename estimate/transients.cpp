#include "estimate/transients.hpp"

#include <algorithm>
#include <set>

#include "estimate/gradients.hpp"
#include "estimate/work.hpp"

namespace penstock {

namespace {

/// One unit at one microbatch size.
class UnitMemory {
 public:
  UnitMemory(const EstimateModel& model, const KeptMemory& kept, const Unit& unit, int64_t batch)
      : model_(model), kept_(kept), unit_(unit), batch_(batch) {}

  std::vector<int64_t> forward() const {
    int64_t level = 0;
    std::vector<int64_t> levels;
    for (OperatorId id = unit_.begin; id < unit_.end; ++id) {
      level += kept_.of(id).own_bytes + kept_.loss_bytes(id);
      for (const ValueId value : kept_.allocated(model_.op(id))) level += bytes(value);
      levels.push_back(level);
      level -= dropped_after(id);
    }
    return above(std::move(levels), level);
  }

  std::vector<int64_t> backward(Loss loss) const {
    LiveGradients gradients(model_, batch_);
    for (OperatorId id = unit_.begin; id < unit_.end; ++id)
      for (const ValueId output : model_.op(id).outputs)
        if (output >= 0 && model_.requires_grad(output) && comes_back(output))
          gradients.enter(output, false);
    int64_t freed = 0;
    std::vector<int64_t> levels(static_cast<size_t>(unit_.end - unit_.begin), 0);
    for (OperatorId id = unit_.end - 1; id >= unit_.begin; --id) {
      const Operator& op = model_.op(id);
      int64_t& level = levels[static_cast<size_t>(id - unit_.begin)];
      if (kept_.makes_loss(id)) {
        gradients.enter(loss_input(model_), true);
        // The gradient that nll_loss fills, until log_softmax has computed its own from it.
        const int64_t filled = loss == Loss::cross_entropy ? bytes(loss_input(model_)) : 0;
        level = gradients.bytes() + filled - freed;
        freed += kept_.loss_bytes(id);
      }
      if (!model_.differentiated(op)) continue;
      gradients.make_operands(op);
      level = std::max(level, gradients.bytes() - freed + weight_gradient_bytes(op));
      gradients.drop_results(op);
      freed += freed_by(id);
    }
    return above(std::move(levels), gradients.bytes() - freed);
  }

 private:
  int64_t bytes(ValueId id) const { return model_.value(id).bytes(batch_); }

  /// Levels are counted from what is there before.
  static std::vector<int64_t> above(std::vector<int64_t> levels, int64_t after) {
    for (int64_t& level : levels) level = std::max<int64_t>(level - std::max<int64_t>(after, 0), 0);
    return levels;
  }

  /// Bytes of this unit's values that are read for the last time here, or never, and not kept.
  int64_t dropped_after(OperatorId id) const {
    std::set<ValueId> candidates;
    for (const ValueId read : model_.op(id).reads()) candidates.insert(model_.root(read));
    for (const ValueId value : kept_.allocated(model_.op(id))) candidates.insert(value);
    int64_t sum = 0;
    for (const ValueId root : candidates) {
      const OperatorId producer = model_.value(root).producer;
      const bool here = model_.counts(root) && producer >= unit_.begin && producer < unit_.end;
      if (here && kept_.last_reader(root) <= id && !kept_.is_kept(root)) sum += bytes(root);
    }
    return sum;
  }

  /// Later units return its gradient.
  bool comes_back(ValueId value) const {
    const OperatorId last = model_.last_reader(value);
    return last >= unit_.end && last < model_.operators();
  }

  int64_t weight_gradient_bytes(const Operator& op) const {
    int64_t sum = 0;
    if (!model_.works(op)) return sum;
    for (const ValueId parameter : model_.parameter_operands(op)) sum += bytes(parameter);
    return sum;
  }

  int64_t freed_by(OperatorId id) const {
    int64_t sum = kept_.of(id).own_bytes;
    for (const ValueId root : kept_.of(id).roots)
      if (kept_.first_keeper(root) == id && model_.value(root).producer >= unit_.begin)
        sum += bytes(root);
    return sum;
  }

  const EstimateModel& model_;
  const KeptMemory& kept_;
  const Unit& unit_;
  const int64_t batch_;
};

}  // namespace

std::vector<int64_t> forward_transients(const EstimateModel& model, const KeptMemory& kept,
                                        const Unit& unit, int64_t batch) {
  return UnitMemory(model, kept, unit, batch).forward();
}

std::vector<int64_t> backward_transients(const EstimateModel& model, const KeptMemory& kept,
                                         const Unit& unit, Loss loss, int64_t batch) {
  return UnitMemory(model, kept, unit, batch).backward(loss);
}

}  // namespace penstock
