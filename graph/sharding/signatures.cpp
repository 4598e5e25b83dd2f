#include "graph/sharding/signatures.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"
#include "graph/sharding/axes.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock::sharding {
namespace {

using Sharding = OperatorTraits::Sharding;
using Signatures = std::vector<Signature>;

Shape shape_at(const Graph& graph, ValueId value, int64_t batch) {
  Shape shape;
  for (const Expression& size : graph.values[value].shape) shape.push_back(size.at(batch));
  return shape;
}

/// Nothing for an operator some of whose outputs are no tensors.
std::optional<Call> call_of(const Graph& graph, const Operator& op, int64_t batch) {
  Call call{op, batch, {}, {}};
  for (const ValueId value : tensor_arguments(op))
    call.operands.push_back(shape_at(graph, value, batch));
  for (const ValueId value : op.outputs) {
    if (value < 0) return std::nullopt;
    call.results.push_back(shape_at(graph, value, batch));
  }
  if (call.operands.empty() || call.results.empty()) return std::nullopt;
  return call;
}

bool all_fit(const std::vector<Layout>& layouts, const std::vector<Shape>& shapes, int parts) {
  for (size_t i = 0; i < layouts.size(); ++i)
    if (!fits(layouts[i], shapes[i], parts)) return false;
  return true;
}

void add_if_fitting(Signatures& found, Signature signature, const Call& call, int parts) {
  if (all_fit(signature.operands, call.operands, parts) &&
      all_fit(signature.results, call.results, parts))
    found.push_back(std::move(signature));
}

/// The signature of an axis in that many blocks.
Signature split_along(const Axis& axis, int64_t blocks) {
  Signature signature;
  for (const int d : axis.operands)
    signature.operands.push_back(d < 0 ? Layout::replicated() : Layout::split(d, blocks));
  for (const int d : axis.results)
    signature.results.push_back(d < 0 ? Layout::partial() : Layout::split(d, blocks));
  if (axis.added >= 0) signature.operands[axis.added] = Layout::partial();
  return signature;
}

/// Into how many blocks so many elements can be split over that many ranks, ascending.
std::vector<int64_t> block_counts(int64_t size, int parts) {
  std::vector<int64_t> counts;
  if (size % parts != 0) return counts;
  const int64_t elements = size / parts;
  for (int64_t blocks = 1; blocks <= elements; ++blocks)
    if (elements % blocks == 0) counts.push_back(blocks);
  return counts;
}

void add_axis(Signatures& found, const Axis& axis, const Call& call, int parts) {
  for (size_t i = 0; i < axis.operands.size(); ++i) {
    if (axis.operands[i] < 0) continue;
    for (const int64_t blocks : block_counts(call.operands[i][axis.operands[i]], parts))
      if (axis.units % (blocks * parts) == 0)
        add_if_fitting(found, split_along(axis, blocks), call, parts);
    return;
  }
}

/// Whether it is neither computed nor a parameter, so that it has no gradient.
bool is_given(const Graph& graph, ValueId value) {
  const Value& read = graph.values[value];
  return read.producer < 0 &&
         (read.tensor < 0 || graph.tensors[read.tensor].kind != StoredTensor::Kind::parameter);
}

/// Targets, which are no probabilities, and weights each rank has whole.
void add_classes(Signatures& found, const Graph& graph, const Call& call, int parts) {
  if (call.op.autocast) return;  // which casts for the kernel that it knows
  const std::vector<ValueId> operands = tensor_arguments(call.op);
  if (operands.size() < 2 || is_floating(graph.values[operands[1]].dtype)) return;
  if (operands.size() > 2 && !is_given(graph, operands[2])) return;
  const int dimension = class_dimension(rank(call.operands[0]));
  for (const Layout& split : splits_of(call.operands[0], dimension, parts)) {
    Signature signature{std::vector<Layout>(call.operands.size(), Layout::identical()),
                        {Layout::identical()}};
    signature.operands[0] = split;
    found.push_back(std::move(signature));
  }
}

void add_views(Signatures& found, const Call& call, Sharding sharding, int parts) {
  const Shape& shape = call.operands[0];
  for (int d = 0; d < rank(shape); ++d)
    for (const Layout& split : splits_of(shape, d, parts)) {
      if (sharding == Sharding::squeezed && shape[d] == parts) continue;
      if (const auto result = view_split(split, shape, call.results[0], parts))
        found.push_back({{split}, {*result}});
    }
}

/// The layouts of pieces, each a number of blocks of that size; nothing where one is not.
std::optional<std::vector<Layout>> whole_blocks(const std::vector<Shape>& pieces, int dimension,
                                                int64_t block) {
  std::vector<Layout> layouts;
  for (const Shape& piece : pieces) {
    if (dimension >= static_cast<int>(piece.size()) || piece[dimension] == 0 ||
        piece[dimension] % block != 0)
      return std::nullopt;
    layouts.push_back(Layout::split(dimension, piece[dimension] / block));
  }
  return layouts;
}

/// Along the dimension that is cut into pieces, or that pieces are joined along.
void add_pieces(Signatures& found, const Call& call, int parts) {
  const bool cut = call.operands.size() == 1 && call.results.size() > 1;
  const Shape& whole = cut ? call.operands[0] : call.results[0];
  const int64_t given = integer(call, "dim", 0);
  const int dimension = static_cast<int>(given < 0 ? given + whole.size() : given);
  for (const int64_t blocks : block_counts(whole[dimension], parts)) {
    const Layout split = Layout::split(dimension, blocks);
    const auto pieces =
        whole_blocks(cut ? call.results : call.operands, dimension, whole[dimension] / blocks);
    if (!pieces) continue;
    if (cut)
      found.push_back({{split}, *pieces});
    else
      found.push_back({*pieces, {split}});
  }
}

void add_all(Signatures& found, const Call& call, const Layout& layout) {
  found.push_back({std::vector<Layout>(call.operands.size(), layout),
                   std::vector<Layout>(call.results.size(), layout)});
}

/// f(a) + f(b) = f(a + b), of all operands together; a number that is added stands in the way.
bool is_linear(const Graph& graph, const Call& call, Sharding sharding) {
  if (!is_floating(graph.values[call.op.outputs[0]].dtype)) return false;
  switch (sharding) {
    case Sharding::scaled: return call.operands.size() == 1 && !argument(call.op, "rounding_mode");
    case Sharding::linear_pointwise:
      return call.operands.size() == 2 || !argument(call.op, "other");
    case Sharding::view:
    case Sharding::squeezed: return call.operands.size() == 1 && call.op.overload != "dtype";
    case Sharding::permuted:
    case Sharding::expanded:
    case Sharding::selected:
    case Sharding::pieces:
    case Sharding::stacked:
    case Sharding::repeated:
    case Sharding::reordered:
    case Sharding::sum:
    case Sharding::mean: return true;
    default: return false;
  }
}

}  // namespace

std::vector<Layout> splits_of(const Shape& shape, int dimension, int parts) {
  std::vector<Layout> splits;
  for (const int64_t blocks : block_counts(shape[dimension], parts))
    splits.push_back(Layout::split(dimension, blocks));
  return splits;
}

std::vector<ValueId> tensor_arguments(const Operator& op) {
  std::vector<ValueId> values;
  for (const Argument& argument : op.arguments) {
    if (const auto* tensor = std::get_if<TensorRef>(&argument.value))
      values.push_back(tensor->value);
    if (const auto* list = std::get_if<TensorList>(&argument.value))
      for (const auto& value : list->values)
        if (value) values.push_back(*value);
  }
  return values;
}

std::vector<Signature> signatures(const Graph& graph, const Operator& op, int64_t batch, int parts,
                                  bool random_by_part) {
  Signatures found{{std::vector<Layout>(tensor_arguments(op).size(), Layout::identical()),
                    std::vector<Layout>(op.outputs.size(), Layout::identical())}};
  const Sharding sharding = traits_of(op).sharding;
  const auto call = call_of(graph, op, batch);
  const bool draws = is_random(op);
  if (!call || (draws && !random_by_part) || is_mutating(op)) return found;
  if (!draws) add_all(found, *call, Layout::replicated());
  if (sharding == Sharding::whole) return found;
  for (const Axis& axis : axes_of(*call, sharding)) add_axis(found, axis, *call, parts);
  const bool is_view = sharding == Sharding::view || sharding == Sharding::squeezed;
  if (is_view && call->operands.size() == 1 && op.overload != "dtype")
    add_views(found, *call, sharding, parts);
  if (sharding == Sharding::classes) add_classes(found, graph, *call, parts);
  if (sharding == Sharding::pieces) add_pieces(found, *call, parts);
  if (is_linear(graph, *call, sharding)) add_all(found, *call, Layout::partial());
  const auto has_whole = [](const Signature& signature) {
    return !std::ranges::all_of(signature.results, &Layout::is_split);
  };
  if (draws) found.erase(std::remove_if(found.begin() + 1, found.end(), has_whole), found.end());
  return found;
}

}  // namespace penstock::sharding
