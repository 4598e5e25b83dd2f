// Formulas, with one multiply-add counted as two FLOPs, as Kaplan et al., "Scaling Laws for Neural
// Language Models" (2020), count them. Attention is 4*B*H*Tq*Tk*D: a matrix product for the scores,
// one for the result. A causal mask hides nearly half, which fused kernels skip (Dao,
// "FlashAttention-2", 2023, counts so too).
#include "graph/operators/flops.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"
#include "graph/operators/table.hpp"

namespace penstock {
namespace {

/// The shapes of an operator for one batch.
struct Shapes {
  const Graph& graph;
  const Operator& op;
  int64_t batch;

  const Value* value(const std::string& name) const {
    const ArgumentValue* found = argument(op, name);
    const auto* tensor = found ? std::get_if<TensorRef>(found) : nullptr;
    return tensor ? &graph.values[tensor->value] : nullptr;
  }
  double elements(const std::string& name) const {
    const Value* found = value(name);
    return found ? static_cast<double>(found->elements(batch)) : 0;
  }
  /// Dimension `dim` of argument `name`, from the end where negative; 1 where there is none.
  double size(const std::string& name, int dim) const {
    const Value* found = value(name);
    if (!found) return 1;
    const int rank = static_cast<int>(found->shape.size()), at = dim < 0 ? dim + rank : dim;
    return at < 0 || at >= rank ? 1 : static_cast<double>(found->shape[at].at(batch));
  }
  double output() const {
    double count = 0;
    for (const ValueId id : op.outputs)
      if (id >= 0) count = std::max(count, static_cast<double>(graph.values[id].elements(batch)));
    return count;
  }
};

/// self [.., n, k] @ other [k, m]: two FLOPs for each of k terms of each output element.
double product_of(const Shapes& s, const std::string& left) {
  return 2 * s.output() * s.size(left, -1);
}

double linear(const Shapes& s) {
  return product_of(s, "input") + (s.value("bias") ? s.output() : 0);
}
/// addmm, baddbmm and addbmm, addmv call the left factor differently.
double added_product(const Shapes& s) {
  const char* left = s.value("mat1") ? "mat1" : s.value("batch1") ? "batch1" : "mat";
  return product_of(s, left) + 2 * s.output();
}
double bilinear(const Shapes& s) {
  return 2 * s.output() * s.size("input1", -1) * (s.size("input2", -1) + 1);
}

/// Each output element is a dot product over one group's input channels and the kernel: the weight
/// [out, in/groups, kernel…] without its first dimension.
double plain_convolution(const Shapes& s) {
  const double terms = s.elements("weight") / std::max(1.0, s.size("weight", 0));
  return 2 * s.output() * terms + (s.value("bias") ? s.output() : 0);
}
/// Each input element is spread over the outputs of its group: the weight [in, out/groups,
/// kernel…].
double transposed_convolution(const Shapes& s) {
  const double terms = s.elements("weight") / std::max(1.0, s.size("weight", 0));
  return 2 * s.elements("input") * terms + (s.value("bias") ? s.output() : 0);
}

double convolution(const Shapes& s) {
  return flag(s.op, "transposed", false) ? transposed_convolution(s) : plain_convolution(s);
}

/// The keys that a row of queries sees, on average: under a causal mask the first sees one, each
/// next one more.
double seen_keys(const Shapes& s) {
  const double rows = s.size("query", -2), keys = s.size("key", -2);
  const ArgumentValue* causal = argument(s.op, "is_causal");
  if (!causal || !std::holds_alternative<bool>(*causal) || !std::get<bool>(*causal)) return keys;
  const double growing = std::min(rows, keys);
  return (growing * (growing + 1) / 2 + (rows - growing) * keys) / std::max(1.0, rows);
}

/// query [.., Tq, D], key [.., Tk, D], value [.., Tk, Dv]; heads of key and value may be repeated.
double attention(const Shapes& s) {
  const double rows = s.elements("query") / std::max(1.0, s.size("query", -1));
  return 2 * rows * seen_keys(s) * (s.size("query", -1) + s.size("value", -1));
}

/// Every weight matrix multiplies the features once for each sample and time step.
double recurrent(const Shapes& s) {
  const Value* input = s.value("input");
  const ArgumentValue* parameters = argument(s.op, "params");
  const auto* list = parameters ? std::get_if<TensorList>(parameters) : nullptr;
  if (!input || !list) return s.output();
  const double steps = s.elements("input") / std::max(1.0, s.size("input", -1));
  double terms = 0;
  for (const auto& id : list->values)
    if (id && s.graph.values[*id].shape.size() == 2)
      terms += static_cast<double>(s.graph.values[*id].elements(s.batch));
  return 2 * steps * terms + s.output();
}

/// A sum over the input: one addition for each of its elements.
double reduction(const Shapes& s) { return std::max(s.elements("self"), s.elements("input")); }
/// A mean, a variance, a difference, a quotient, scale and shift for each element.
double normalisation(const Shapes& s) {
  return 8 * std::max(s.elements("input"), s.elements("self"));
}
/// Maximum, difference, exponential, sum and quotient for each element.
double softmax(const Shapes& s) { return 5 * std::max(s.elements("self"), s.elements("input")); }
double embedding_bag(const Shapes& s) { return s.elements("indices") * s.size("weight", -1); }

double flops_of(OperatorTraits::Flops kind, const Shapes& shapes) {
  using Flops = OperatorTraits::Flops;
  switch (kind) {
    case Flops::per_element: return shapes.output();
    case Flops::none:
    case Flops::lookup: return 0;
    case Flops::linear: return linear(shapes);
    case Flops::product: return product_of(shapes, "self");
    case Flops::added_product: return added_product(shapes);
    case Flops::bilinear: return bilinear(shapes);
    case Flops::convolution: return convolution(shapes);
    case Flops::transposed_convolution: return transposed_convolution(shapes);
    case Flops::attention: return attention(shapes);
    case Flops::recurrent: return recurrent(shapes);
    case Flops::normalisation: return normalisation(shapes);
    case Flops::softmax: return softmax(shapes);
    case Flops::reduction: return reduction(shapes);
    case Flops::embedding_bag: return embedding_bag(shapes);
  }
  return 0;
}

}  // namespace

double forward_flops(const Graph& graph, const Operator& op, int64_t batch) {
  if (is_view(op) || is_assertion(op)) return 0;
  return flops_of(traits_of(op).flops, {graph, op, batch});
}

int64_t forward_bytes(const Graph& graph, const Operator& op, int64_t batch) {
  if (is_view(op) || is_assertion(op)) return 0;
  int64_t written = 0, read = 0;
  for (const ValueId output : op.outputs)
    if (output >= 0) written += graph.values[output].bytes(batch);
  const bool lookup = traits_of(op).flops == OperatorTraits::Flops::lookup;
  for (const ValueId source : op.reads()) {
    const int64_t whole = graph.values[source].bytes(batch);
    read += lookup && source == op.reads().front() ? std::min(whole, written) : whole;
  }
  return read + written;
}

}  // namespace penstock
