#include "graph/sharding/axes.hpp"

#include <algorithm>
#include <numeric>

#include "graph/operators/facts.hpp"

namespace penstock::sharding {
namespace {

using Sharding = OperatorTraits::Sharding;
using Axes = std::vector<Axis>;

int rank(const Shape& shape) { return static_cast<int>(shape.size()); }

/// Numbered from 0; dimensions may count from the end.
int from_front(int64_t dimension, int rank) {
  return static_cast<int>(dimension < 0 ? dimension + rank : dimension);
}

/// The dimension of an operand that is broadcast to `d` of `result`; -1 where it has none or 1.
int broadcast_from(const Shape& operand, const Shape& result, int d) {
  const int own = d - (rank(result) - rank(operand));
  return own >= 0 && operand[own] == result[d] ? own : -1;
}

Axis along(const Call& call, int d) {
  Axis axis{{}, {d}};
  for (const Shape& operand : call.operands)
    axis.operands.push_back(broadcast_from(operand, call.results[0], d));
  return axis;
}

/// Dimensions of the result `begin` to `end`, which operands have too or are broadcast to.
Axes broadcast(const Call& call, int begin, int end) {
  Axes axes;
  for (int d = begin; d < end; ++d) axes.push_back(along(call, d));
  return axes;
}

/// The parameters' gradients are sums over the rows: read as R, each rank has a term of them.
Axes linear(const Call& call) {
  const int last = rank(call.results[0]) - 1;
  const bool bias = call.operands.size() == 3;
  if (rank(call.operands[1]) != 2) return {};
  Axes axes;
  for (int d = 0; d < last; ++d) axes.push_back({{d, -1}, {d}});
  axes.push_back({{-1, 0}, {last}});
  axes.push_back({{last, 1}, {-1}});
  if (!bias) return axes;
  for (Axis& axis : axes) axis.operands.push_back(axis.results[0] == last ? 0 : -1);
  axes.back().added = 2;
  return axes;
}

/// Axes of left @ right, `first` operands before them.
Axes product(const Call& call, size_t first) {
  const Shape &left = call.operands[first], &right = call.operands[first + 1];
  const Shape& result = call.results[0];
  const int n = rank(result), l = rank(left), r = rank(right);
  if (l < 2 || r < 2) return {};
  Axes axes;
  for (int d = 0; d < n - 2; ++d)
    axes.push_back(
        {{broadcast_from({left.begin(), left.end() - 2}, {result.begin(), result.end() - 2}, d),
          broadcast_from({right.begin(), right.end() - 2}, {result.begin(), result.end() - 2}, d)},
         {d}});
  axes.push_back({{l - 2, -1}, {n - 2}});
  axes.push_back({{-1, r - 1}, {n - 1}});
  axes.push_back({{l - 1, r - 2}, {-1}});
  return axes;
}

Axes added_product(const Call& call) {
  Axes axes = product(call, 1);
  for (Axis& axis : axes) {
    const int d = axis.results[0];
    axis.operands.insert(axis.operands.begin(),
                         d < 0 ? -1 : broadcast_from(call.operands[0], call.results[0], d));
  }
  if (!axes.empty()) axes.back().added = 0;
  return axes;
}

Axes permuted(const Call& call) {
  const int n = rank(call.results[0]);
  std::vector<int> order(n);  // of each dimension of the result, that of the operand
  std::iota(order.begin(), order.end(), 0);
  if (const auto dims = integers(call, "dims")) {
    for (int d = 0; d < n; ++d) order[d] = from_front((*dims)[d], n);
  } else if (n > 1) {
    const int a = from_front(integer(call, "dim0", 0), n);
    std::swap(order[a], order[from_front(integer(call, "dim1", 1), n)]);
  }
  Axes axes;
  for (int d = 0; d < n; ++d) axes.push_back({{order[d]}, {d}});
  return axes;
}

/// All dimensions but `dim`, which the result may lack, in each operand and result.
Axes all_but_one(const Call& call, bool removed) {
  const int n = rank(call.operands[0]);
  const int cut = from_front(integer(call, "dim", 0), n);
  Axes axes;
  for (int d = 0; d < n; ++d)
    if (d != cut)
      axes.push_back({std::vector<int>(call.operands.size(), d),
                      std::vector<int>(call.results.size(), removed && d > cut ? d - 1 : d)});
  return axes;
}

Axes norm(const Call& call) {
  const auto normalised = integers(call, "normalized_shape");
  if (!normalised) return {};
  Axes axes;
  for (int d = 0; d < rank(call.results[0]) - rank(*normalised); ++d) {
    Axis axis{std::vector<int>(call.operands.size(), -1), {d}};
    axis.operands[0] = d;
    axes.push_back(axis);
  }
  return axes;
}

Axes reduction(const Call& call, bool sums) {
  const int n = rank(call.operands[0]);
  if (n == 0) return {};
  const bool keep = flag(call.op, "keepdim", false);
  const auto dims = integers(call, "dim");
  std::vector<bool> reduced(n, !dims || dims->empty());
  for (const int64_t d : dims.value_or(Shape())) reduced[from_front(d, n)] = true;
  Axes axes;
  for (int d = 0, left = 0; d < n; ++d) {
    if (!reduced[d]) axes.push_back({{d}, {keep ? d : left++}});
    if (reduced[d] && sums) axes.push_back({{d}, {-1}});
  }
  return axes;
}

Axes embedding(const Call& call) {
  const int last = rank(call.results[0]) - 1;
  Axes axes{{{1, -1}, {last}}};
  if (flag(call.op, "scale_grad_by_freq", false)) return axes;  // counts all ids
  for (int d = 0; d < last; ++d) axes.push_back({{-1, d}, {d}});
  return axes;
}

/// Batch and heads, where keys and values have as many.
Axes attention(const Call& call) {
  Axes axes;
  for (const Axis& axis : broadcast(call, 0, rank(call.results[0]) - 2))
    if (std::equal(axis.operands.begin() + 1, axis.operands.begin() + 3, axis.operands.begin()))
      axes.push_back(axis);
  return axes;
}

Axes convolution(const Call& call) {
  if (integer(call, "groups", 1) != 1 || rank(call.results[0]) != rank(call.operands[1])) return {};
  Axes axes{{{0, -1}, {0}}, {{-1, 0}, {1}}, {{1, 1}, {-1}}};
  if (call.operands.size() == 2) return axes;
  for (Axis& axis : axes) axis.operands.push_back(axis.results[0] == 1 ? 0 : -1);
  axes.back().added = 2;
  return axes;
}

}  // namespace

int64_t integer(const Call& call, const std::string& name, int64_t otherwise) {
  const auto found = integers(call, name);
  return found && found->size() == 1 ? found->front() : otherwise;
}

std::optional<Shape> integers(const Call& call, const std::string& name) {
  const ArgumentValue* value = argument(call.op, name);
  if (!value) return std::nullopt;
  if (const auto* one = std::get_if<int64_t>(value)) return Shape{*one};
  if (const auto* size = std::get_if<Expression>(value)) return Shape{size->at(call.batch)};
  const auto* list = std::get_if<std::vector<Expression>>(value);
  if (!list) return std::nullopt;
  Shape numbers;
  for (const Expression& size : *list) numbers.push_back(size.at(call.batch));
  return numbers;
}

std::vector<Axis> axes_of(const Call& call, Sharding sharding) {
  const int n = rank(call.results[0]);
  switch (sharding) {
    case Sharding::pointwise:
    case Sharding::linear_pointwise:
    case Sharding::scaled:
    case Sharding::expanded: return broadcast(call, 0, n);
    case Sharding::linear: return linear(call);
    case Sharding::product: return product(call, 0);
    case Sharding::added_product: return added_product(call);
    case Sharding::permuted: return permuted(call);
    case Sharding::selected: return all_but_one(call, true);
    case Sharding::one_dimension:
    case Sharding::pieces: return all_but_one(call, false);
    case Sharding::norm: return norm(call);
    case Sharding::sum: return reduction(call, true);
    case Sharding::mean: return reduction(call, false);
    case Sharding::embedding: return embedding(call);
    case Sharding::attention: return attention(call);
    case Sharding::convolution: return convolution(call);
    case Sharding::whole:
    case Sharding::view:
    case Sharding::squeezed: break;
  }
  return {};
}

}  // namespace penstock::sharding
