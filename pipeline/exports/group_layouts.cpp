#include "pipeline/exports/group_layouts.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "graph/operators/table.hpp"
#include "graph/sharding/conversions.hpp"

namespace penstock {

namespace {

/// The matrix that an operand is, or is a view of; -1 for data.
int matrix_of(const ExportSource& source, ValueId operand) {
  const Graph& model = source.model;
  for (;;) {
    const Value& value = model.values[static_cast<size_t>(operand)];
    if (value.tensor >= 0) {
      const StoredTensor& tensor = model.tensors[static_cast<size_t>(value.tensor)];
      const bool weight = tensor.kind == StoredTensor::Kind::parameter && tensor.sizes.size() > 1;
      return weight ? value.tensor : -1;
    }
    if (!source.analysis.parameter_derived[static_cast<size_t>(operand)]) return -1;
    operand = model.operators[static_cast<size_t>(value.producer)].reads().front();
  }
}

ProductSplit split_of(const ExportSource& source, OperatorId id) {
  const auto& results = source.completion->operators[static_cast<size_t>(id)].results;
  if (results.empty()) return ProductSplit::none;
  if (results.front() == sharding::Layout::partial()) return ProductSplit::rows;
  const ValueId output = source.model.operators[static_cast<size_t>(id)].outputs.front();
  const auto rank = source.model.values[static_cast<size_t>(output)].shape.size();
  const bool last =
      results.front().is_split() && static_cast<size_t>(results.front().dimension()) + 1 == rank;
  return last ? ProductSplit::columns : ProductSplit::none;
}

bool is_number(const std::string& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

/// `blocks.*.mlp.*.weight` would mean other modules than `blocks.*.mlp.0.weight`: the first number
/// alone is a layer's.
std::string pattern_of(const std::string& name) {
  size_t begin = 0;
  while (begin < name.size()) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (is_number(name.substr(begin, end - begin)))
      return name.substr(0, begin) + "*" + name.substr(end);
    begin = end + 1;
  }
  return name;
}

}  // namespace

std::vector<WeightProduct> weight_products(const ExportSource& source, OperatorId begin,
                                           OperatorId end) {
  std::vector<WeightProduct> products;
  for (OperatorId id = begin; id < end; ++id) {
    const Operator& op = source.model.operators[static_cast<size_t>(id)];
    if (class_of(op) != OperatorClass::gemm || op.outputs.front() < 0) continue;
    for (const ValueId read : op.reads()) {
      const int tensor = matrix_of(source, read);
      if (tensor >= 0) products.push_back({tensor, split_of(source, id)});
    }
  }
  return products;
}

sharding::Layout handed_on(const ExportSource& source, ValueId value) {
  const OperatorId producer = source.model.values[static_cast<size_t>(value)].producer;
  if (producer < 0) return sharding::Layout::identical();
  const Operator& op = source.model.operators[static_cast<size_t>(producer)];
  const auto output = std::ranges::find(op.outputs, value) - op.outputs.begin();
  const auto& results = source.completion->operators[static_cast<size_t>(producer)].results;
  if (results.empty()) return sharding::Layout::identical();
  sharding::Layout layout = results[static_cast<size_t>(output)];
  for (const sharding::Converted& each : source.completion->conversions) {
    const bool here = each.value == value && each.before == producer + 1 && each.from == layout;
    if (here && reduces(sharding::conversion(each.from, each.to).forward)) layout = each.to;
  }
  return layout;
}

bool splits_sequence(const Value& value, const sharding::Layout& layout) {
  if (!layout.is_split()) return false;
  const auto dimension = static_cast<size_t>(layout.dimension());
  return dimension + 1 < value.shape.size() && !value.shape[dimension].depends_on_batch();
}

std::vector<std::string> name_patterns(const std::vector<std::string>& names) {
  std::map<std::string, std::set<std::string>> named;
  for (const std::string& name : names) named[pattern_of(name)].insert(name);
  std::vector<std::string> patterns;
  for (const std::string& name : names) {
    const std::string pattern = pattern_of(name);
    const std::string& shown = named.at(pattern).size() > 1 ? pattern : name;
    if (std::ranges::find(patterns, shown) == patterns.end()) patterns.push_back(shown);
  }
  return patterns;
}

}  // namespace penstock
