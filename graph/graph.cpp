#include "graph/graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"

namespace penstock {
namespace {

int64_t multiply(int64_t a, int64_t b, std::string_view of) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw InputError(of, "has a size that does not fit in 64 bits", "Choose a smaller batch.");
  return product;
}

/// A unique list grown by `value`.
void add(std::vector<ValueId>& values, ValueId value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

}  // namespace

std::string module_of_call(const std::string& call) {
  constexpr size_t most_digits = 9;
  const size_t at = call.find_last_not_of("0123456789");
  const bool numbered = at != call.npos && call[at] == '@' && at + 1 < call.size();
  return numbered && call.size() - at - 1 <= most_digits ? call.substr(0, at) : call;
}

int64_t Value::elements(int64_t batch) const {
  int64_t count = 1;
  for (const Expression& size : shape) count = multiply(count, size.at(batch), name);
  return count;
}

int64_t Value::bytes(int64_t batch) const {
  return multiply(elements(batch), size_bytes(dtype), name);
}

std::string Value::type() const {
  std::vector<std::string> sizes;
  for (const Expression& size : shape) sizes.push_back(size.str());
  return fmt::format("{} [{}]", penstock::name(dtype), fmt::join(sizes, ", "));
}

int64_t StoredTensor::elements() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count = multiply(count, size, name);
  return count;
}

int64_t StoredTensor::bytes() const { return multiply(elements(), size_bytes(dtype), name); }

std::vector<std::string> StoredTensor::names() const {
  std::vector<std::string> all{name};
  all.insert(all.end(), aliases.begin(), aliases.end());
  return all;
}

bool StoredTensor::in_state_dict() const {
  return kind == Kind::parameter || (kind == Kind::buffer && persistent);
}

std::vector<ValueId> Operator::reads() const {
  std::vector<ValueId> values;
  for (const Argument& argument : arguments) {
    if (const auto* tensor = std::get_if<TensorRef>(&argument.value)) add(values, tensor->value);
    if (const auto* list = std::get_if<TensorList>(&argument.value))
      for (const auto& value : list->values)
        if (value) add(values, *value);
  }
  return values;
}

std::optional<ValueId> Graph::first_output() const {
  if (outputs.empty()) return std::nullopt;
  const auto* tensor = std::get_if<TensorRef>(&outputs.front().value);
  return tensor ? std::optional(tensor->value) : std::nullopt;
}

std::map<std::string, int> Graph::tensor_by_name() const {
  std::map<std::string, int> names;
  for (int index = 0; index < static_cast<int>(tensors.size()); ++index)
    for (const std::string& name : tensors[index].names()) names.emplace(name, index);
  return names;
}

std::vector<std::vector<OperatorId>> Graph::consumers() const {
  std::vector<std::vector<OperatorId>> readers(values.size());
  for (OperatorId id = 0; id < static_cast<int>(operators.size()); ++id)
    for (const ValueId value : operators[id].reads()) readers[value].push_back(id);
  return readers;
}

}  // namespace penstock
