#include "estimate/gradients.hpp"

#include <numeric>

#include "graph/operators/table.hpp"

namespace penstock {

namespace {

/// For each value its reader in a backward, where it has exactly one.
std::vector<OperatorId> only_readers(const EstimateModel& model) {
  std::vector<OperatorId> readers(model.graph().values.size(), -1);
  for (OperatorId id = 0; id < model.operators(); ++id) {
    if (!model.differentiated(model.op(id))) continue;
    for (const ValueId read : model.op(id).reads())
      if (model.gradients(read) == 1) readers[static_cast<size_t>(read)] = id;
  }
  return readers;
}

/// Does the operator hand its result's gradient to this operand as it is, without a copy?
bool passes_on_gradient(const EstimateModel& model, const Operator& op, ValueId operand,
                        int64_t batch) {
  if (op.outputs.size() != 1 || op.outputs.front() < 0) return false;
  const bool hands =
      EstimateModel::is_alias(op) || traits_of(op).gradient == OperatorTraits::Gradient::shared;
  const Value& from = model.value(op.outputs.front());
  return hands && from.elements(batch) == model.value(operand).elements(batch);
}

}  // namespace

std::vector<ValueId> gradient_roots(const EstimateModel& model, int64_t batch) {
  const std::vector<OperatorId> readers = only_readers(model);
  std::vector<ValueId> roots(model.graph().values.size());
  std::iota(roots.begin(), roots.end(), 0);
  for (OperatorId id = model.operators() - 1; id >= 0; --id) {
    for (const ValueId output : model.op(id).outputs) {
      if (output < 0) continue;
      const OperatorId reader = readers[static_cast<size_t>(output)];
      if (reader < 0 || !passes_on_gradient(model, model.op(reader), output, batch)) continue;
      const ValueId result = model.op(reader).outputs.front();
      roots[static_cast<size_t>(output)] = roots[static_cast<size_t>(result)];
    }
  }
  return roots;
}

int LiveGradients::make(int64_t bytes) {
  storages_.push_back({bytes, 0});
  bytes_ += bytes;
  return static_cast<int>(storages_.size()) - 1;
}

void LiveGradients::release(int storage) {
  Storage& released = storages_[static_cast<size_t>(storage)];
  if (--released.users == 0) bytes_ -= released.bytes;
}

void LiveGradients::enter(ValueId value, bool allocated) {
  const int storage = make(allocated ? model_.value(value).bytes(batch_) : 0);
  ++storages_[static_cast<size_t>(storage)].users;
  storage_of_[value] = storage;
}

int LiveGradients::handed_on(const Operator& op, ValueId operand) {
  if (passes_on_gradient(model_, op, operand, batch_)) {
    const auto found = storage_of_.find(op.outputs.front());
    if (found != storage_of_.end()) return found->second;
  }
  return make(model_.value(operand).bytes(batch_));
}

void LiveGradients::make_operands(const Operator& op) {
  for (const ValueId operand : model_.data_operands(op)) {
    const int storage = handed_on(op, operand);
    ++storages_[static_cast<size_t>(storage)].users;
    const auto [place, first] = storage_of_.try_emplace(operand, storage);
    if (first) continue;
    const int sum = make(model_.value(operand).bytes(batch_));
    ++storages_[static_cast<size_t>(sum)].users;
    replaced_.push_back(place->second);
    replaced_.push_back(storage);
    place->second = sum;
  }
}

void LiveGradients::drop_results(const Operator& op) {
  for (const int storage : replaced_) release(storage);
  replaced_.clear();
  for (const ValueId output : op.outputs) {
    const auto found = storage_of_.find(output);
    if (found == storage_of_.end()) continue;
    release(found->second);
    storage_of_.erase(found);
  }
}

}  // namespace penstock
