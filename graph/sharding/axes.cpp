#include "graph/sharding/axes.hpp"

#include <algorithm>
#include <numeric>

#include "graph/operators/facts.hpp"
#include "graph/sharding/lookup_axes.hpp"

namespace penstock::sharding {
namespace {

using Sharding = OperatorTraits::Sharding;
using Axes = std::vector<Axis>;

/// The dimension of an operand that is broadcast to `d` of `result`; -1 where it has none or 1.
int broadcast_from(const Shape& operand, const Shape& result, int d) {
  const int own = d - (rank(result) - rank(operand));
  return own >= 0 && operand[own] == result[d] ? own : -1;
}

/// All results have one shape.
Axis along(const Call& call, int d) {
  Axis axis{{}, std::vector<int>(call.results.size(), d)};
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

/// Batch and heads. Of queries, keys and values, fewer heads of keys and values are split as theirs
/// are, each with the queries that it serves; one that serves all is read whole.
Axes attention(const Call& call) {
  const int heads = rank(call.results[0]) - 3;
  Axes axes;
  for (Axis& axis : broadcast(call, 0, heads + 1)) {
    const bool of_heads = axis.results[0] == heads && flag(call.op, "enable_gqa", false);
    for (int i = 1; i < 3; ++i)
      if (of_heads && call.operands[i][heads] > 1) axis.operands[i] = heads;
    axes.push_back(axis);
  }
  return axes;
}

/// All channels of a group stay together; each has its own rows of the weight.
Axes grouped_convolution(const Call& call, int64_t groups) {
  Axes axes{{{0, -1}, {0}}, {{1, 0}, {1}, -1, groups}};
  if (call.operands.size() == 3)
    for (Axis& axis : axes) axis.operands.push_back(axis.operands[1]);
  return axes;
}

/// A transposed convolution's weight has the channels in first.
Axes convolution(const Call& call, bool transposed) {
  if (rank(call.results[0]) != rank(call.operands[1])) return {};
  const int64_t groups = integer(call, "groups", 1);
  if (groups > 1) return grouped_convolution(call, groups);
  const int in = transposed ? 0 : 1, out = 1 - in;
  Axes axes{{{0, -1}, {0}}, {{-1, out}, {1}}, {{1, in}, {-1}}};
  if (call.operands.size() == 2) return axes;
  for (Axis& axis : axes) axis.operands.push_back(axis.results[0] == 1 ? 0 : -1);
  axes.back().added = 2;
  return axes;
}

/// Batch and channels, of which each is pooled on its own.
Axes pooling(const Call& call) {
  const size_t digit = call.op.target.find_first_of("123");
  if (digit == std::string::npos) return {};
  return broadcast(call, 0, rank(call.results[0]) - (call.op.target[digit] - '0'));
}

/// Channels, with what there is for each: weight, bias, statistics.
Axes batch_norm(const Call& call) {
  Axis axis{std::vector<int>(call.operands.size(), 0), std::vector<int>(call.results.size(), 0)};
  axis.operands[0] = axis.results[0] = 1;
  return {axis};
}

Axes group_norm(const Call& call) {
  Axis samples{std::vector<int>(call.operands.size(), -1), {0}};
  samples.operands[0] = 0;
  Axis channels{std::vector<int>(call.operands.size(), 0), {1}, -1, integer(call, "num_groups", 1)};
  channels.operands[0] = 1;
  return {samples, channels};
}

Axes repeated(const Call& call) {
  const auto times = integers(call, "repeats");
  if (!times) return {};
  const int n = rank(call.results[0]), added = n - rank(call.operands[0]);
  Axes axes;
  for (int d = added; d < n; ++d)
    if ((*times)[d] == 1) axes.push_back({{d - added}, {d}});
  return axes;
}

/// A roll without `dims` goes over the ends of all.
Axes reordered(const Call& call) {
  const auto dims = integers(call, "dims");
  if (!dims || dims->empty()) return {};
  const int n = rank(call.results[0]);
  Axes axes;
  for (int d = 0; d < n; ++d)
    if (std::ranges::none_of(*dims, [&](int64_t each) { return from_front(each, n) == d; }))
      axes.push_back({{d}, {d}});
  return axes;
}

/// `pad` says how much is added before and behind each dimension, from the last.
Axes padded(const Call& call) {
  const auto added = integers(call, "pad");
  return added ? broadcast(call, 0, rank(call.results[0]) - rank(*added) / 2) : Axes();
}

Axes stacked(const Call& call) {
  const int n = rank(call.results[0]);
  const int added = from_front(integer(call, "dim", 0), n);
  Axes axes;
  for (int d = 0; d < n; ++d)
    if (d != added)
      axes.push_back({std::vector<int>(call.operands.size(), d > added ? d - 1 : d), {d}});
  return axes;
}

}  // namespace

int rank(const Shape& shape) { return static_cast<int>(shape.size()); }

int from_front(int64_t dimension, int rank) {
  return static_cast<int>(dimension < 0 ? dimension + rank : dimension);
}

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
    case Sharding::sum:
    case Sharding::mean: return reduction(call, true);
    case Sharding::reduced: return reduction(call, false);
    case Sharding::embedding: return embedding_axes(call);
    case Sharding::attention: return attention(call);
    case Sharding::convolution: return convolution(call, false);
    case Sharding::transposed_convolution: return convolution(call, true);
    case Sharding::pooling: return pooling(call);
    case Sharding::batch_norm: return batch_norm(call);
    case Sharding::group_norm: return group_norm(call);
    case Sharding::stacked: return stacked(call);
    case Sharding::index_select: return index_select_axes(call);
    case Sharding::index: return index_axes(call);
    case Sharding::gather: return gather_axes(call);
    case Sharding::repeated: return repeated(call);
    case Sharding::reordered: return reordered(call);
    case Sharding::padded: return padded(call);
    case Sharding::whole:
    case Sharding::classes:
    case Sharding::view:
    case Sharding::squeezed: break;
  }
  return {};
}

}  // namespace penstock::sharding
