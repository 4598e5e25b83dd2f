#include "pipeline/exports/megatron_groups.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "graph/cuts/cuts.hpp"
#include "graph/operators/table.hpp"
#include "graph/sharding/signatures.hpp"
#include "pipeline/exports/group_layouts.hpp"

namespace penstock {

namespace {

/// The first operators of the layers, and that of what comes after them.
std::vector<OperatorId> layer_bounds(const ModuleCuts& cuts, const LayerStack& stack) {
  std::vector<OperatorId> bounds;
  for (const size_t begin : stack.begins) bounds.push_back(cuts.points[begin].op);
  bounds.push_back(cuts.points[stack.end].op);
  return bounds;
}

/// Values of floating point that cross a bound of layers, those between layers alone.
std::vector<ValueId> between_layers(const ExportSource& source,
                                    const std::vector<OperatorId>& bounds) {
  std::vector<ValueId> values;
  for (size_t i = 1; i < bounds.size(); ++i) {
    for (const ValueId value : values_at_cut(source.model, source.analysis, bounds[i]))
      if (is_floating(source.model.values[static_cast<size_t>(value)].dtype))
        values.push_back(value);
  }
  return values;
}

bool splits_sequences(const ExportSource& source, const std::vector<ValueId>& values) {
  return !values.empty() && std::ranges::all_of(values, [&](ValueId value) {
    return splits_sequence(source.model.values[static_cast<size_t>(value)],
                           handed_on(source, value));
  });
}

const std::string& tensor_name(const ExportSource& source, int tensor) {
  return source.model.tensors[static_cast<size_t>(tensor)].name;
}

/// Words are split by rows; positions, which depend on no input, are not split.
void compare_lookups(const ExportSource& source, OperatorId end, std::vector<std::string>& unlike) {
  for (OperatorId id = 0; id < end; ++id) {
    const Operator& op = source.model.operators[static_cast<size_t>(id)];
    if (op.target != "aten::embedding") continue;
    const std::vector<ValueId> operands = sharding::tensor_arguments(op);
    const int tensor = source.model.values[static_cast<size_t>(operands[0])].tensor;
    if (tensor < 0) continue;
    const sharding::Layout& layout = source.completion->tensors[static_cast<size_t>(tensor)];
    const bool words = !source.analysis.constant[static_cast<size_t>(operands[1])];
    if (words ? layout != sharding::Layout::split(0) : layout.is_split())
      unlike.push_back(tensor_name(source, tensor));
  }
}

/// A layer begins with columns and ends with rows.
void compare_layer(const ExportSource& source, OperatorId begin, OperatorId end,
                   std::vector<std::string>& unlike) {
  const std::vector<WeightProduct> products = weight_products(source, begin, end);
  for (size_t i = 0; i < products.size(); ++i) {
    const ProductSplit split = products[i].split;
    const bool first = i == 0, last = i + 1 == products.size();
    if (split == ProductSplit::none || (first && split == ProductSplit::rows) ||
        (last && split == ProductSplit::columns))
      unlike.push_back(tensor_name(source, products[i].tensor));
  }
}

void compare_output(const ExportSource& source, OperatorId begin,
                    std::vector<std::string>& unlike) {
  const auto end = static_cast<OperatorId>(source.model.operators.size());
  for (const WeightProduct& product : weight_products(source, begin, end))
    if (product.split != ProductSplit::columns)
      unlike.push_back(tensor_name(source, product.tensor));
}

}  // namespace

std::string tensor_parallel_arguments(const ExportSource& source, const ModuleCuts& cuts,
                                      const LayerStack& stack) {
  const auto values = between_layers(source, layer_bounds(cuts, stack));
  return fmt::format(" --tensor-model-parallel-size {}{}", source.plan.tensor_parallel,
                     splits_sequences(source, values) ? " --sequence-parallel" : "");
}

std::vector<std::string> unlike_megatron(const ExportSource& source) {
  if (!source.completion) return {};
  const ModuleCuts cuts = module_cuts(source);
  const std::vector<OperatorId> bounds = layer_bounds(cuts, layer_stack(source, cuts, "Megatron"));
  std::vector<std::string> unlike;
  compare_lookups(source, bounds.front(), unlike);
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    compare_layer(source, bounds[i], bounds[i + 1], unlike);
  const std::vector<ValueId> between = between_layers(source, bounds);
  for (const ValueId value : splits_sequences(source, between) ? std::vector<ValueId>() : between) {
    const sharding::Layout layout = handed_on(source, value);
    if (layout != sharding::Layout::identical() && layout != sharding::Layout::replicated())
      unlike.push_back(source.model.values[static_cast<size_t>(value)].name);
  }
  compare_output(source, bounds.back(), unlike);
  return name_patterns(unlike);
}

}  // namespace penstock
