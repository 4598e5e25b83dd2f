#include "simulator/memory/stage_parts.hpp"

#include <algorithm>

namespace penstock {

namespace {

/// In the order of the forward.
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

}  // namespace

StageParts::StageParts(const ValueLives& lives, const Slicing& slicing, int stage)
    : lives_(lives), parts_(parts_of(slicing.stages[static_cast<size_t>(stage)])) {
  for (size_t part = 0; part < parts_.size(); ++part)
    for (const OperatorId op : parts_[part].operators) part_of_[op] = part;
  const auto& inputs = slicing.stages[static_cast<size_t>(stage)].user_inputs;
  inputs_.insert(inputs.begin(), inputs.end());
  for (const StageEdge& edge : slicing.edges) {
    for (const Crossing& crossing : edge.values) {
      if (edge.consumer == stage) received_[crossing.value] = crossing.carries_gradient;
      if (edge.producer == stage) sent_[crossing.value] = crossing.carries_gradient;
    }
  }
}

size_t StageParts::part_of(OperatorId op) const {
  const auto found = part_of_.find(op);
  return found == part_of_.end() ? parts_.size() : found->second;
}

ValueId StageParts::root_in(ValueId value, size_t part) const {
  return lives_.named_by(value, [&](OperatorId op) { return inside(op, part); });
}

ValueId StageParts::kept_in(ValueId value, OperatorId keeper, size_t part) const {
  return lives_.kept_as(value, keeper, [&](OperatorId op) { return inside(op, part); });
}

bool StageParts::comes_in(ValueId value, size_t part) const {
  if (inputs_.contains(value) || received_.contains(value)) return true;
  const size_t maker = part_of(lives_.producer(value));
  return lives_.producer(value) >= 0 && maker < part;
}

bool StageParts::carries_gradient(ValueId value) const {
  const auto found = received_.find(value);
  return found == received_.end() ? !inputs_.contains(value) : found->second;
}

std::set<ValueId> StageParts::reads_of(size_t part) const {
  std::set<ValueId> reads;
  for (const OperatorId op : parts_[part].operators)
    for (const ValueId read : lives_.reads(op))
      if (comes_in(read, part)) reads.insert(read);
  return reads;
}

std::map<ValueId, bool> StageParts::hands_on(size_t part) const {
  std::map<ValueId, bool> handed;
  for (const auto& [value, gradient] : sent_)
    if (inside(lives_.producer(value), part)) handed[value] = gradient;
  for (size_t later = part + 1; later < parts_.size(); ++later)
    for (const ValueId read : reads_of(later))
      if (inside(lives_.producer(read), part)) handed[read] = true;
  return handed;
}

std::map<ValueId, OperatorId> StageParts::first_keepers(size_t part) const {
  std::map<ValueId, OperatorId> keepers;
  for (const OperatorId op : parts_[part].operators)
    for (const ValueId kept : lives_.kept_by(op)) keepers.try_emplace(kept_in(kept, op, part), op);
  return keepers;
}

OperatorId StageParts::last_reader_in(size_t part, ValueId value) const {
  const auto& operators = parts_[part].operators;
  const auto last = std::find_if(operators.rbegin(), operators.rend(), [&](OperatorId op) {
    return std::ranges::count(lives_.reads(op), value) > 0;
  });
  return last == operators.rend() ? -1 : *last;
}

int64_t StageParts::readers_in(size_t part, ValueId value) const {
  return std::ranges::count_if(parts_[part].operators, [&](OperatorId op) {
    return std::ranges::count(lives_.reads(op), value) > 0;
  });
}

}  // namespace penstock
