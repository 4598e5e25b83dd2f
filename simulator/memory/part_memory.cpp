#include "simulator/memory/part_memory.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace penstock {

namespace {

using ByOperator = std::map<OperatorId, int64_t>;

ByOperator sum(ByOperator one, const ByOperator& other) {
  for (const auto& [op, bytes] : other) one[op] += bytes;
  return one;
}

class PartWalk {
 public:
  PartWalk(const StageParts& stage, size_t part, const MicrobatchCosts& measured,
           const std::set<ValueId>& elsewhere)
      : stage_(stage),
        part_(part),
        lives_(stage.lives()),
        measured_(measured),
        elsewhere_(elsewhere),
        handed_(stage.hands_on(part)) {}

  PartMemory run() const;

 private:
  using Keepers = std::map<ValueId, OperatorId>;

  MemoryChange forward(const Keepers& keepers) const;
  int64_t alone_peak() const;
  struct GradientChanges {
    ByOperator both, input;  // of B and of I, by operator
    int64_t for_weight = 0;  // at the end of I
  };
  GradientChanges gradients() const;
  int64_t bases() const;
  std::pair<ByOperator, ByOperator> releases(const Keepers& keepers) const;
  MemoryChange reversed(MemoryChange HeldBytes::*action, const ByOperator& more) const;

  bool inside(OperatorId op) const { return stage_.inside(op, part_); }
  const HeldBytes& held(OperatorId op) const {
    return measured_.operators[static_cast<size_t>(op)].held;
  }
  /// The operator's result has another size than what it read.
  bool sliced(OperatorId op, ValueId read) const {
    const auto& made = lives_.makes(op);
    return made.size() == 1 && lives_.bytes(made.front()) != lives_.bytes(read);
  }

  const StageParts& stage_;
  const size_t part_;
  const ValueLives& lives_;
  const MicrobatchCosts& measured_;
  const std::set<ValueId>& elsewhere_;
  const std::map<ValueId, bool> handed_;  // on
};

/// A value that was given to this part stays, also where the whole model lets go of it here.
MemoryChange PartWalk::forward(const Keepers& keepers) const {
  ByOperator stays;
  std::set<ValueId> seen;
  for (const ValueId read : stage_.reads_of(part_)) {
    const ValueId root = lives_.root(read);
    const bool let_go = lives_.producer(root) >= 0 && lives_.first_keeper(root) < 0 &&
                        inside(lives_.last_reader(root));
    if (let_go && seen.insert(root).second) stays[lives_.last_reader(root)] += lives_.bytes(root);
  }
  MemoryChange all;
  for (const OperatorId op : stage_[part_].operators) {
    all = all.then(held(op).forward);
    const auto found = stays.find(op);
    if (found != stays.end()) all = all.then({found->second, std::max<int64_t>(found->second, 0)});
  }
  all.net = 0;
  for (const OperatorId op : stage_[part_].operators) all.net += lives_.own_bytes(op);
  for (const auto& [root, keeper] : keepers)
    if (inside(lives_.producer(root))) all.net += lives_.bytes(root);
  return all;
}

/// Without autograd each value goes with its last reader.
int64_t PartWalk::alone_peak() const {
  std::map<OperatorId, std::set<ValueId>> dying;
  for (const OperatorId op : stage_[part_].operators)
    for (const ValueId read : lives_.reads(op))
      if (inside(lives_.producer(read))) dying[stage_.last_reader_in(part_, read)].insert(read);
  int64_t level = 0, peak = 0;
  for (const OperatorId op : stage_[part_].operators) {
    peak = std::max(peak, level + held(op).forward.peak);
    for (const ValueId made : lives_.makes(op)) level += lives_.bytes(made);
    for (const ValueId value : dying[op])
      if (lives_.source(value) < 0 && !handed_.contains(value)) level -= lives_.bytes(value);
  }
  return peak;
}

/// Gradients that the whole model adds to others and this part makes, or that stay longer here.
/// A gradient that is handed on, as it is or as a part of another, is nobody's own: nothing is
/// added to it in place, and a part that goes to another stage is copied.
/// A given gradient that W needs is a message to the end of I, and the stage's own from then on.
PartWalk::GradientChanges PartWalk::gradients() const {
  GradientChanges found;
  ByOperator& added = found.both;
  for (const ValueId read : stage_.reads_of(part_)) {
    const OperatorId last = stage_.last_reader_in(part_, read);
    if (!stage_.carries_gradient(read)) continue;
    if (!lives_.hands_gradient_on(last, read)) {
      if (last != lives_.last_reader_itself(read)) added[last] += lives_.bytes(read);
    } else if (sliced(last, read) && stage_.readers_in(part_, read) == 1) {
      added[stage_[part_].operators.front()] += lives_.bytes(read);  // at the end
    }
  }
  for (const auto& [value, gradient] : handed_) {
    if (!gradient) continue;
    const OperatorId reader = stage_.last_reader_in(part_, value);
    const bool shared = lives_.hands_gradient_on(lives_.last_reader_itself(value), value);
    if (reader >= 0 && shared) continue;  // the whole model makes a sum here as well
    const OperatorId last = reader >= 0 ? reader : lives_.gradient_user(value);
    if (!inside(last)) continue;
    added[last] += lives_.bytes(value);
    if (!stage_.sent().contains(value) || held(last).backward_weight.net >= 0) continue;
    found.input[last] -= lives_.bytes(value);
    found.for_weight += lives_.bytes(value);
  }
  for (const auto& [value, maker, last] : lives_.concatenations())  // made elsewhere
    if (inside(last) && !inside(maker)) added[last] += lives_.bytes(value);
  found.input = sum(found.both, found.input);
  return found;
}

/// Gradients of concatenations that are let go of at the end, when the parts that lie in them have
/// been copied for others; in the whole model they stay for an earlier operator.
int64_t PartWalk::bases() const {
  int64_t bytes = 0;
  for (const auto& [value, maker, last] : lives_.concatenations()) {
    const bool given = handed_.contains(value) && stage_.last_reader_in(part_, value) < 0;
    if (inside(maker) && !inside(last) && !given) bytes += lives_.bytes(value);
  }
  return bytes;
}

/// Values that came in and are let go of here, but elsewhere in the whole model: in B or I; in W.
std::pair<ByOperator, ByOperator> PartWalk::releases(const Keepers& keepers) const {
  ByOperator of_inputs, of_weights;
  std::set<ValueId> weights;  // that W needs
  for (const OperatorId op : stage_[part_].operators) {
    if (held(op).backward_weight.net >= 0) continue;
    for (const ValueId value : lives_.kept_by(op)) weights.insert(stage_.kept_in(value, op, part_));
  }
  for (const auto& [root, keeper] : keepers) {
    if (!stage_.comes_in(root, part_)) continue;
    const ValueId whole = lives_.root(root);
    const bool counted = lives_.producer(whole) >= 0 && lives_.first_keeper(whole) == keeper;
    const int64_t freed = elsewhere_.contains(root) ? 0 : lives_.bytes(root);
    const int64_t change = (counted ? lives_.bytes(whole) : 0) - freed;
    (weights.contains(root) ? of_weights : of_inputs)[keeper] += change;
  }
  return {of_inputs, of_weights};
}

MemoryChange PartWalk::reversed(MemoryChange HeldBytes::*action, const ByOperator& more) const {
  MemoryChange all;
  const auto& operators = stage_[part_].operators;
  for (auto op = operators.rbegin(); op != operators.rend(); ++op) {
    all = all.then(held(*op).*action);
    const auto found = more.find(*op);
    if (found != more.end()) all = all.then({found->second, std::max<int64_t>(found->second, 0)});
  }
  return all;
}

PartMemory PartWalk::run() const {
  const std::map<ValueId, OperatorId> keepers = stage_.first_keepers(part_);
  PartMemory memory{.forward = forward(keepers)};
  if (stage_[part_].recomputed) memory.alone_peak = alone_peak();
  for (const auto& [root, keeper] : keepers) {
    if (stage_.comes_in(root, part_)) memory.needed.insert(root);
    if (inside(lives_.producer(root))) memory.kept.insert(root);
  }
  const auto [in_input, in_weight] = releases(keepers);
  const GradientChanges made = gradients();
  const int64_t at_end = -bases();
  memory.backward =
      reversed(&HeldBytes::backward, sum(sum(in_input, made.both), in_weight)).then({at_end});
  memory.backward_input = reversed(&HeldBytes::backward_input, sum(in_input, made.input))
                              .then({at_end + made.for_weight});
  memory.backward_weight = reversed(&HeldBytes::backward_weight, in_weight);
  return memory;
}

}  // namespace

PartMemory part_memory(const StageParts& stage, size_t part, const MicrobatchCosts& measured,
                       const std::set<ValueId>& elsewhere) {
  return PartWalk(stage, part, measured, elsewhere).run();
}

}  // namespace penstock
