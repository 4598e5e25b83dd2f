#include "simulator/memory/value_lives.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "graph/operators/facts.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock {

ValueLives::ValueLives(const Graph& model, const MicrobatchCosts& measured)
    : producers_(model.values.size()),
      last_readers_(model.values.size(), -1),
      last_readers_itself_(model.values.size(), -1),
      second_readers_(model.values.size(), -1),
      first_keepers_(model.values.size(), -1),
      sources_(model.values.size(), -1),
      roots_(model.values.size()),
      gathered_from_(model.values.size(), -1),
      strided_(model.values.size(), false) {
  if (measured.operators.size() != model.operators.size())
    throw std::invalid_argument("ValueLives: costs of another model");
  std::iota(roots_.begin(), roots_.end(), 0);
  bytes_.reserve(model.values.size());
  for (size_t value = 0; value < model.values.size(); ++value) {
    bytes_.push_back(model.values[value].bytes(measured.microbatch));
    producers_[value] = last_readers_[value] = model.values[value].producer;
  }
  find_constants(model);
  for (size_t id = 0; id < model.operators.size(); ++id)
    enter(model.operators[id], static_cast<OperatorId>(id), measured.operators[id].values);
  for (size_t id = 0; id < model.operators.size(); ++id) {
    int64_t& own = own_bytes_.emplace_back(measured.operators[id].held.forward.net);
    for (const ValueId made : makes_[id]) own -= bytes(made);
  }
  for (size_t value = 0; value < model.values.size(); ++value) {
    const bool let_go = producers_[value] >= 0 && sources_[value] < 0 && first_keepers_[value] < 0;
    if (let_go) own_bytes_[index(last_readers_[value])] += bytes_[value];
  }
  for (const OperatorCost& op : measured.operators) backward_peak_.push_back(op.held.backward.peak);
  for (size_t id = 0; id < model.operators.size(); ++id) {
    const auto op = static_cast<OperatorId>(id);
    const bool has_backward = measured.operators[id].times.backward.mean_s > 0;
    if (!has_backward || !concatenates(op)) continue;
    const ValueId value = makes(op).front();
    concatenations_.push_back({value, op, gradient_user(value)});
  }
}

bool ValueLives::hands_gradient_on(OperatorId op, ValueId value) const {
  return op >= 0 && backward_peak_[index(op)] < bytes(value);
}

/// Its operands are together as large as its result.
bool ValueLives::concatenates(OperatorId op) const {
  if (reads(op).size() < 2 || makes(op).size() != 1) return false;
  int64_t sum = 0;
  for (const ValueId operand : reads(op)) {
    if (!hands_gradient_on(op, operand)) return false;
    sum += bytes(operand);
  }
  return sum == bytes(makes(op).front());
}

OperatorId ValueLives::gradient_user(ValueId value) const {
  const OperatorId maker = producer(value);
  if (!hands_gradient_on(maker, value)) return maker;
  OperatorId last = maker;
  const bool joins = concatenates(maker);
  for (const ValueId operand : reads(maker)) {
    const bool handed = joins || bytes(operand) == bytes(value);
    if (!handed || producer(operand) < 0) continue;
    const OperatorId second = second_reader(operand);
    last = std::min(last, second >= 0 ? second : gradient_user(operand));
  }
  return last;
}

/// A view of one lies in its memory, which no measurement tells: it was made before.
void ValueLives::find_constants(const Graph& model) {
  constant_.assign(model.values.size(), false);
  for (size_t value = 0; value < model.values.size(); ++value) {
    const int tensor = model.values[value].tensor;
    if (tensor < 0) continue;
    constant_[value] = !model.tensors[index(tensor)].requires_grad &&
                       std::ranges::count(model.updates, tensor, &BufferUpdate::tensor) == 0;
  }
  for (const Operator& op : model.operators) {
    const std::vector<ValueId> reads = op.reads();
    const bool fixed = std::ranges::all_of(reads, [&](ValueId read) { return constant(read); });
    if (!fixed || is_random(op)) continue;
    for (const ValueId output : op.outputs) {
      if (output < 0) continue;
      constant_[index(output)] = true;
      if (is_view(op) && !reads.empty()) roots_[index(output)] = root(reads.front());
    }
  }
}

void ValueLives::enter(const Operator& op, OperatorId id, const ValueMemory& memory) {
  std::vector<ValueId> numbered = reads_.emplace_back(op.reads());
  numbered.insert(numbered.end(), op.outputs.begin(), op.outputs.end());
  const auto value = [&](int number) {
    return index(number) < numbered.size() ? numbered[index(number)] : -1;
  };
  for (const auto& [output, source] : memory.shares) {
    const ValueId view = value(output), of = value(source);
    if (view < 0 || of < 0) continue;
    sources_[index(view)] = of;
    roots_[index(view)] = root(of);
  }
  std::vector<ValueId>& made = makes_.emplace_back(op.outputs);
  std::erase_if(made, [&](ValueId output) { return output < 0 || source(output) >= 0; });
  for (const ValueId read : reads_.back()) {
    second_readers_[index(read)] = last_readers_itself_[index(read)];
    last_readers_[index(root(read))] = last_readers_itself_[index(read)] = id;
  }
  if (sharding::gathers_again(op))
    gathered_from_[index(op.outputs.front())] = reads_.back().front();
  std::vector<ValueId>& kept = kept_by_.emplace_back();
  for (const int number : memory.keeps) {
    const ValueId needed = value(number);
    if (needed < 0) continue;
    kept.push_back(needed);
    const ValueId held = kept_as(needed, id, [](OperatorId) { return true; });
    OperatorId& first = first_keepers_[index(root(held))];
    if (first < 0) first = id;
  }
  for (const int number : memory.strided)
    if (value(number) >= 0) strided_[index(value(number))] = true;
}

}  // namespace penstock
