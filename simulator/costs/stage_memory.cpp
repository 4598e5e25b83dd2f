#include "simulator/costs/stage_memory.hpp"

#include <algorithm>
#include <map>

#include "simulator/costs/stage_terms.hpp"

namespace penstock {

namespace {

using ByOperator = std::map<OperatorId, int64_t>;

/// A part of the stage that is kept or recomputed as one; the whole stage where none is.
struct StagePart {
  bool recomputed = false;
  std::vector<OperatorId> operators = {};
};

/// A part alone, counted from where its actions start.
struct PartMemory {
  MemoryChange forward;      // with what the backward needs; its net is what is made here and kept
  int64_t alone_peak = 0;    // of a forward that keeps nothing
  std::set<ValueId> kept;    // values made here of which it keeps all memory
  std::set<ValueId> needed;  // values that came in and that its backward needs
  MemoryChange backward, backward_input, backward_weight;
};

/// The three ways back.
struct Backwards {
  MemoryChange both, input, weight;
  void add(const Backwards& next) {
    both = both.then(next.both);
    input = input.then(next.input);
    weight = weight.then(next.weight);
  }
};

/// In the order of the forward: each recomputed segment, and what lies between two of them.
std::vector<StagePart> parts_of(const StageSlice& slice) {
  std::vector<StagePart> parts;
  size_t previous = slice.recomputed.size() + 1;  // none
  for (const OperatorId op : slice.operators) {
    const size_t segment = segment_of(slice.recomputed, op);
    if (segment != previous) parts.push_back({.recomputed = segment < slice.recomputed.size()});
    previous = segment;
    parts.back().operators.push_back(op);
  }
  return parts;
}

ByOperator sum(ByOperator one, const ByOperator& other) {
  for (const auto& [op, bytes] : other) one[op] += bytes;
  return one;
}

class StageWalk {
 public:
  StageWalk(const ValueLives& lives, const MicrobatchCosts& measured, const Slicing& slicing,
            int stage, int64_t target_bytes, const std::set<ValueId>& elsewhere)
      : lives_(lives),
        measured_(measured),
        slice_(slicing.stages[static_cast<size_t>(stage)]),
        target_bytes_(target_bytes),
        elsewhere_(elsewhere),
        parts_(parts_of(slice_)) {
    for (size_t part = 0; part < parts_.size(); ++part)
      for (const OperatorId op : parts_[part].operators) part_of_[op] = part;
    inputs_.insert(slice_.user_inputs.begin(), slice_.user_inputs.end());
    for (const StageEdge& edge : slicing.edges) {
      for (const Crossing& crossing : edge.values) {
        if (edge.consumer == stage) received_[crossing.value] = crossing.carries_gradient;
        if (edge.producer == stage) sent_[crossing.value] = crossing.carries_gradient;
      }
    }
  }

  StageMemory run();

 private:
  size_t part_of(OperatorId op) const {
    const auto found = part_of_.find(op);
    return found == part_of_.end() ? parts_.size() : found->second;
  }
  bool inside(OperatorId op, size_t part) const { return op >= 0 && part_of(op) == part; }

  /// The value that the memory of `value` is named by in this part: one that it makes, or is given.
  ValueId root_in(ValueId value, size_t part) const {
    while (inside(lives_.producer(value), part) && lives_.source(value) >= 0)
      value = lives_.source(value);
    return value;
  }
  /// Comes from outside the part, and takes memory of this microbatch.
  bool comes_in(ValueId value, size_t part) const {
    if (inputs_.contains(value) || received_.contains(value)) return true;
    const size_t maker = part_of(lives_.producer(value));
    return lives_.producer(value) >= 0 && maker < part;
  }
  bool carries_gradient(ValueId value) const {
    const auto found = received_.find(value);
    return found == received_.end() ? !inputs_.contains(value) : found->second;
  }

  std::set<ValueId> reads_of(size_t part) const;
  std::map<ValueId, OperatorId> first_keepers(size_t part) const;
  std::map<ValueId, bool> hands_on(size_t part) const;
  PartMemory measure(size_t part) const;
  MemoryChange forward(size_t part, const std::map<ValueId, OperatorId>& keepers) const;
  int64_t alone_peak(size_t part) const;
  OperatorId last_reader_in(size_t part, ValueId value) const;
  int64_t readers_in(size_t part, ValueId value) const;
  /// The operator's result has another size than what it read.
  bool sliced(OperatorId op, ValueId read) const {
    const auto& made = lives_.makes(op);
    return made.size() == 1 && lives_.bytes(made.front()) != lives_.bytes(read);
  }
  struct GradientChanges {
    ByOperator both, input;  // of B and of I, by operator
    int64_t for_weight = 0;  // at the end of I
  };
  GradientChanges gradients(size_t part) const;
  int64_t bases(size_t part) const;
  std::pair<ByOperator, ByOperator> releases(size_t part,
                                             const std::map<ValueId, OperatorId>& keepers) const;
  MemoryChange reversed(size_t part, MemoryChange HeldBytes::*action, const ByOperator& more) const;
  void walk_forward(StageMemory& stage) const;
  void walk_back(StageMemory& stage) const;

  const HeldBytes& held(OperatorId op) const {
    return measured_.operators[static_cast<size_t>(op)].held;
  }
  /// 0 for what another stage of the rank holds.
  int64_t bytes_here(ValueId value) const {
    return elsewhere_.contains(value) ? 0 : lives_.bytes(value);
  }
  bool kept(size_t part, ValueId value) const {
    return !parts_[part].recomputed && measured_parts_[part].kept.contains(root_in(value, part));
  }
  /// Does an earlier part hold it as well, for its own backward?
  bool held_before(size_t part, ValueId value) const {
    for (size_t earlier = 0; earlier < part; ++earlier)
      if (held_by_[earlier].contains(value)) return true;
    return false;
  }

  const ValueLives& lives_;
  const MicrobatchCosts& measured_;
  const StageSlice& slice_;
  const int64_t target_bytes_;
  const std::set<ValueId>& elsewhere_;
  const std::vector<StagePart> parts_;
  std::map<OperatorId, size_t> part_of_;
  std::map<ValueId, bool> received_, sent_;  // do they carry a gradient?
  std::set<ValueId> inputs_;                 // read from the data
  std::vector<PartMemory> measured_parts_;
  std::vector<std::set<ValueId>> held_by_;  // by part: values of which it holds all memory
};

std::set<ValueId> StageWalk::reads_of(size_t part) const {
  std::set<ValueId> reads;
  for (const OperatorId op : parts_[part].operators)
    for (const ValueId read : lives_.reads(op))
      if (comes_in(read, part)) reads.insert(read);
  return reads;
}

/// By the values that the part's memory is named by.
std::map<ValueId, OperatorId> StageWalk::first_keepers(size_t part) const {
  std::map<ValueId, OperatorId> keepers;
  for (const OperatorId op : parts_[part].operators)
    for (const ValueId kept : lives_.kept_by(op)) keepers.try_emplace(root_in(kept, part), op);
  return keepers;
}

std::map<ValueId, bool> StageWalk::hands_on(size_t part) const {
  std::map<ValueId, bool> handed;
  for (const auto& [value, gradient] : sent_)
    if (inside(lives_.producer(value), part)) handed[value] = gradient;
  for (size_t later = part + 1; later < parts_.size(); ++later)
    for (const ValueId read : reads_of(later))
      if (inside(lives_.producer(read), part)) handed[read] = true;
  return handed;
}

/// A value that was given to this part stays, also where the whole model lets go of it here.
MemoryChange StageWalk::forward(size_t part, const std::map<ValueId, OperatorId>& keepers) const {
  ByOperator stays;
  std::set<ValueId> seen;
  for (const ValueId read : reads_of(part)) {
    const ValueId root = lives_.root(read);
    const bool let_go = lives_.producer(root) >= 0 && lives_.first_keeper(root) < 0 &&
                        inside(lives_.last_reader(root), part);
    if (let_go && seen.insert(root).second) stays[lives_.last_reader(root)] += lives_.bytes(root);
  }
  MemoryChange all;
  for (const OperatorId op : parts_[part].operators) {
    all = all.then(held(op).forward);
    const auto found = stays.find(op);
    if (found != stays.end()) all = all.then({found->second, std::max<int64_t>(found->second, 0)});
  }
  all.net = 0;
  for (const OperatorId op : parts_[part].operators) all.net += lives_.own_bytes(op);
  for (const auto& [root, keeper] : keepers)
    if (inside(lives_.producer(root), part)) all.net += lives_.bytes(root);
  return all;
}

/// Without autograd each value goes with its last reader.
int64_t StageWalk::alone_peak(size_t part) const {
  const std::map<ValueId, bool> handed = hands_on(part);
  std::map<OperatorId, std::set<ValueId>> dying;
  for (const OperatorId op : parts_[part].operators)
    for (const ValueId read : lives_.reads(op))
      if (inside(lives_.producer(read), part)) dying[last_reader_in(part, read)].insert(read);
  int64_t level = 0, peak = 0;
  for (const OperatorId op : parts_[part].operators) {
    peak = std::max(peak, level + held(op).forward.peak);
    for (const ValueId made : lives_.makes(op)) level += lives_.bytes(made);
    for (const ValueId value : dying[op])
      if (lives_.source(value) < 0 && !handed.contains(value)) level -= lives_.bytes(value);
  }
  return peak;
}

OperatorId StageWalk::last_reader_in(size_t part, ValueId value) const {
  const auto& operators = parts_[part].operators;
  const auto last = std::find_if(operators.rbegin(), operators.rend(), [&](OperatorId op) {
    return std::ranges::count(lives_.reads(op), value) > 0;
  });
  return last == operators.rend() ? -1 : *last;
}

int64_t StageWalk::readers_in(size_t part, ValueId value) const {
  return std::ranges::count_if(parts_[part].operators, [&](OperatorId op) {
    return std::ranges::count(lives_.reads(op), value) > 0;
  });
}

/// Gradients that the whole model adds to others and this part makes, or that stay longer here.
/// A gradient that is handed on, as it is or as a part of another, is nobody's own: nothing is
/// added to it in place, and a part that goes to another stage is copied.
/// A given gradient that W needs is a message to the end of I, and the stage's own from then on.
StageWalk::GradientChanges StageWalk::gradients(size_t part) const {
  GradientChanges found;
  ByOperator& changes = found.both;
  for (const ValueId read : reads_of(part)) {
    const OperatorId last = last_reader_in(part, read);
    if (!carries_gradient(read)) continue;
    if (!lives_.hands_gradient_on(last, read)) {
      if (last != lives_.last_reader_itself(read)) changes[last] += lives_.bytes(read);
    } else if (sliced(last, read) && readers_in(part, read) == 1) {
      changes[parts_[part].operators.front()] += lives_.bytes(read);  // at the end
    }
  }
  for (const auto& [value, gradient] : hands_on(part)) {
    if (!gradient) continue;
    const OperatorId reader = last_reader_in(part, value);
    const bool shared = lives_.hands_gradient_on(lives_.last_reader_itself(value), value);
    if (reader >= 0 && shared) continue;  // the whole model makes a sum here as well
    const OperatorId last = reader >= 0 ? reader : lives_.gradient_user(value);
    if (!inside(last, part)) continue;
    changes[last] += lives_.bytes(value);
    if (!sent_.contains(value) || held(last).backward_weight.net >= 0) continue;
    found.input[last] -= lives_.bytes(value);
    found.for_weight += lives_.bytes(value);
  }
  for (const auto& [value, maker, last] : lives_.concatenations())  // made elsewhere
    if (inside(last, part) && !inside(maker, part)) changes[last] += lives_.bytes(value);
  found.input = sum(found.both, found.input);
  return found;
}

/// Gradients of concatenations that are let go of at the end, when the parts that lie in them have
/// been copied for others; in the whole model they stay for an earlier operator.
int64_t StageWalk::bases(size_t part) const {
  const std::map<ValueId, bool> handed = hands_on(part);
  int64_t bytes = 0;
  for (const auto& [value, maker, last] : lives_.concatenations()) {
    const bool given = handed.contains(value) && last_reader_in(part, value) < 0;
    if (inside(maker, part) && !inside(last, part) && !given) bytes += lives_.bytes(value);
  }
  return bytes;
}

/// Values that came in and are let go of here, but elsewhere in the whole model: in B or I; in W.
std::pair<ByOperator, ByOperator> StageWalk::releases(
    size_t part, const std::map<ValueId, OperatorId>& keepers) const {
  ByOperator changes, of_weights;
  std::set<ValueId> weights;  // that W needs
  for (const OperatorId op : parts_[part].operators) {
    if (held(op).backward_weight.net >= 0) continue;
    for (const ValueId value : lives_.kept_by(op)) weights.insert(root_in(value, part));
  }
  for (const auto& [root, keeper] : keepers) {
    if (!comes_in(root, part)) continue;
    const ValueId whole = lives_.root(root);
    const bool counted = lives_.producer(whole) >= 0 && lives_.first_keeper(whole) == keeper;
    const int64_t freed = held_before(part, root) ? 0 : bytes_here(root);
    const int64_t change = (counted ? lives_.bytes(whole) : 0) - freed;
    (weights.contains(root) ? of_weights : changes)[keeper] += change;
  }
  return {changes, of_weights};
}

MemoryChange StageWalk::reversed(size_t part, MemoryChange HeldBytes::*action,
                                 const ByOperator& more) const {
  MemoryChange all;
  const auto& operators = parts_[part].operators;
  for (auto op = operators.rbegin(); op != operators.rend(); ++op) {
    all = all.then(held(*op).*action);
    const auto found = more.find(*op);
    if (found != more.end()) all = all.then({found->second, std::max<int64_t>(found->second, 0)});
  }
  return all;
}

PartMemory StageWalk::measure(size_t part) const {
  const std::map<ValueId, OperatorId> keepers = first_keepers(part);
  PartMemory memory{.forward = forward(part, keepers)};
  if (parts_[part].recomputed) memory.alone_peak = alone_peak(part);
  for (const auto& [root, keeper] : keepers) {
    if (comes_in(root, part)) memory.needed.insert(root);
    if (inside(lives_.producer(root), part)) memory.kept.insert(root);
  }
  const auto [in_input, in_weight] = releases(part, keepers);
  const GradientChanges made = gradients(part);
  const int64_t at_end = -bases(part);
  memory.backward =
      reversed(part, &HeldBytes::backward, sum(sum(in_input, made.both), in_weight)).then({at_end});
  memory.backward_input = reversed(part, &HeldBytes::backward_input, sum(in_input, made.input))
                              .then({at_end + made.for_weight});
  memory.backward_weight = reversed(part, &HeldBytes::backward_weight, in_weight);
  return memory;
}

/// Parts hand values on, which stay until the last part has read them; here: to the end.
void StageWalk::walk_forward(StageMemory& stage) const {
  int64_t data_bytes = makes_loss(slice_) ? target_bytes_ : 0;
  stage.saved_bytes = data_bytes;
  for (const ValueId input : inputs_) data_bytes += lives_.bytes(input);
  MemoryChange all{data_bytes, data_bytes};
  for (size_t part = 0; part < parts_.size(); ++part) {
    const PartMemory& memory = measured_parts_[part];
    const bool recomputed = parts_[part].recomputed;
    const int64_t own_bytes = recomputed ? 0 : memory.forward.net;
    all = all.then({own_bytes, recomputed ? memory.alone_peak : memory.forward.peak});
    stage.saved_bytes += own_bytes;
    int64_t handed_bytes = 0;
    for (const auto& [value, gradient] : hands_on(part))
      if (lives_.strided(value) || !kept(part, value)) handed_bytes += lives_.bytes(value);
    all = all.then({handed_bytes, handed_bytes});
  }
  for (const ValueId value : stage.held) {
    const size_t maker = part_of(lives_.producer(value));
    if (maker == parts_.size() || !kept(maker, value)) stage.saved_bytes += bytes_here(value);
  }
  stage.forward_peak = std::max(all.peak, stage.saved_bytes - stage.received_bytes);
}

void StageWalk::walk_back(StageMemory& stage) const {
  Backwards all;
  for (size_t part = parts_.size(); part-- > 0;) {
    const PartMemory& memory = measured_parts_[part];
    Backwards own{memory.backward, memory.backward_input, memory.backward_weight};
    if (parts_[part].recomputed) {
      int64_t unneeded = 0;
      for (const ValueId value : held_by_[part])
        if (!memory.needed.contains(value) && !held_before(part, value))
          unneeded += bytes_here(value);
      const MemoryChange again = memory.forward.then({-unneeded, 0});
      const int64_t peak = all.both.peak;
      own.both = again.then(own.both);
      own.input = again.then(own.input);
      if (all.both.net + own.both.peak > peak) stage.remade_bytes = memory.forward.net;
    } else if (all.both.net + own.both.peak > all.both.peak) {
      stage.remade_bytes = 0;
    }
    int64_t returned_bytes = 0;  // by later parts
    for (const auto& [value, gradient] : hands_on(part))
      if (gradient && !sent_.contains(value)) returned_bytes += lives_.bytes(value);
    all.add(own);
    all.add({{-returned_bytes, 0}, {-returned_bytes, 0}, {}});
  }
  stage.backward_peak = all.both.peak;
  stage.backward_input_peak = all.input.peak;
  stage.backward_weight_peak = all.weight.peak;
  int64_t sent_back = 0;
  for (const auto& [value, gradient] : received_)
    if (gradient) sent_back += lives_.bytes(value);
  const int64_t data = makes_loss(slice_) ? target_bytes_ : 0;
  stage.saved_weight_bytes = stage.saved_bytes - data + all.input.net - sent_back;
}

StageMemory StageWalk::run() {
  StageMemory stage;
  for (const auto& [value, gradient] : received_) stage.received_bytes += bytes_here(value);
  for (const auto& [value, gradient] : sent_)
    if (gradient) stage.given_bytes += lives_.bytes(value);
  for (size_t part = 0; part < parts_.size(); ++part) {
    const PartMemory& memory = measured_parts_.emplace_back(measure(part));
    auto& held = held_by_.emplace_back(parts_[part].recomputed ? reads_of(part) : memory.kept);
    if (!parts_[part].recomputed) held.insert(memory.needed.begin(), memory.needed.end());
    stage.held.insert(held.begin(), held.end());
  }
  for (const auto& [value, gradient] : sent_) {
    const bool held = stage.held.contains(root_in(value, part_of(lives_.producer(value))));
    stage.messages[value] = held && !lives_.strided(value) ? 0 : lives_.bytes(value);
  }
  walk_forward(stage);
  walk_back(stage);
  return stage;
}

}  // namespace

StageMemory stage_memory(const ValueLives& lives, const MicrobatchCosts& measured,
                         const Slicing& slicing, int stage, int64_t target_bytes,
                         const std::set<ValueId>& elsewhere) {
  return StageWalk(lives, measured, slicing, stage, target_bytes, elsewhere).run();
}

}  // namespace penstock
