// Functional forms of operators that write, and the inverses of views.
#include <algorithm>
#include <string_view>

#include "graph/functional/functional.hpp"
#include "graph/operators/facts.hpp"
#include "graph/operators/table.hpp"

namespace penstock {
namespace {

using View = OperatorTraits::View;
using Writes = OperatorTraits::Writes;

constexpr std::string_view aten = "aten::";

std::string_view short_name(const Operator& op) {
  const std::string_view target = op.target;
  return target.starts_with(aten) ? target.substr(aten.size()) : std::string_view();
}

/// `add_` is `add`, `__ior__` is `__or__`; few have a name of their own.
std::string functional_name(const Operator& op) {
  const std::string_view name = short_name(op), own = traits_of(op).functional;
  if (!own.empty()) return std::string(own);
  if (name.starts_with("__i")) return "__" + std::string(name.substr(3));
  return std::string(name.substr(0, name.size() - 1));
}

bool is_comparison(std::string_view name) {
  const OperatorTraits* traits = find_traits(name);
  return traits && traits->comparison;
}

/// The result has the type that the operands are promoted to, another than `self` has.
bool promotes(const Graph& graph, const Operator& op, ValueId self) {
  for (const char* name : {"other", "tensor1", "tensor2", "end", "exponent"}) {
    const ArgumentValue* value = argument(op, name);
    const auto* operand = value ? std::get_if<TensorRef>(value) : nullptr;
    if (operand && graph.values[operand->value].dtype != graph.values[self].dtype) return true;
  }
  return false;
}

/// A batch norm that updates its running statistics.
std::optional<FunctionalForm> batch_norm(const Operator& op) {
  FunctionalForm form{op, {{"running_mean", 3}, {"running_var", 4}}};
  form.op.target = std::string(aten) + functional_name(op);
  form.op.outputs.resize(3, -1);
  std::erase_if(form.op.arguments, [](const Argument& a) { return a.name == "cudnn_enabled"; });
  return form;
}

Operator make(std::string target, std::vector<Argument> arguments) {
  Operator op;
  op.target = std::move(target);
  op.arguments = std::move(arguments);
  return op;
}

/// The same arguments, but for the first, and with what is put there as second.
Operator scatter(const Operator& view, std::string target, ValueId base, ValueId part) {
  Operator op = make(std::move(target), view.arguments);
  op.arguments[0].value = TensorRef{base};
  op.arguments.insert(op.arguments.begin() + 1, {"src", TensorRef{part}});
  return op;
}

/// The order of dimensions that undoes this one; nothing for one that is none.
std::optional<std::vector<Expression>> inverse(const std::vector<Expression>& order) {
  const auto count = static_cast<int64_t>(order.size());
  std::vector<int64_t> back(order.size(), -1);
  for (int64_t i = 0; i < count; ++i) {
    if (order[static_cast<size_t>(i)].depends_on_batch()) return std::nullopt;
    const int64_t dim = order[static_cast<size_t>(i)].at(1);
    if (dim < -count || dim >= count) return std::nullopt;
    back[static_cast<size_t>(dim < 0 ? dim + count : dim)] = i;
  }
  if (std::ranges::count(back, -1) > 0) return std::nullopt;
  return std::vector<Expression>(back.begin(), back.end());
}

std::optional<Operator> reshape(const Graph& graph, ValueId base, ValueId part) {
  if (graph.values[base].dtype != graph.values[part].dtype) return std::nullopt;
  return make("aten::reshape", {{"self", TensorRef{part}}, {"shape", graph.values[base].shape}});
}

Operator swap(const Operator& view, ValueId part) {
  Operator op = view;
  op.arguments[0].value = TensorRef{part};
  op.outputs.clear();
  return op;
}

std::optional<Operator> inverse_permutation(const Operator& view, ValueId part) {
  const ArgumentValue* dims = argument(view, "dims");
  const auto* order = dims ? std::get_if<std::vector<Expression>>(dims) : nullptr;
  const auto back = order ? inverse(*order) : std::nullopt;
  if (!back) return std::nullopt;
  return make(view.target, {{"self", TensorRef{part}}, {"dims", *back}});
}

/// `aten::copy` has no derivative: what is copied is expanded, and then cast where it has to be.
std::optional<FunctionalForm> copy(const Graph& graph, const Operator& op, ValueId self) {
  const ArgumentValue* source = argument(op, "src");
  const auto* from = source ? std::get_if<TensorRef>(source) : nullptr;
  if (!from) return std::nullopt;
  FunctionalForm form{op, {{op.arguments[0].name, 0}}};
  form.op.target = "aten::expand";
  form.op.arguments = {{"self", *from}, {"size", graph.values[self].shape}};
  form.op.outputs.resize(1, -1);
  form.changes_type = graph.values[from->value].dtype != graph.values[self].dtype;
  return form;
}

}  // namespace

std::optional<FunctionalForm> functional_form(const Graph& graph, const Operator& op) {
  const std::string_view name = short_name(op);
  const OperatorTraits& traits = traits_of(op);
  if (traits.writes == Writes::statistics && !traits.functional.empty() && op.overload.empty())
    return batch_norm(op);
  const auto* self =
      op.arguments.empty() ? nullptr : std::get_if<TensorRef>(&op.arguments[0].value);
  const bool own_output = op.overload == "out" || op.overload.ends_with("_out");
  const bool in_place = name.starts_with("__i") || name.ends_with('_');
  if (!self || !in_place || own_output || op.outputs.size() > 1 || !has_functional_form(name))
    return std::nullopt;
  if (traits.writes == Writes::copy) return copy(graph, op, self->value);
  FunctionalForm form{op, {{op.arguments[0].name, 0}}};
  const std::string functional = functional_name(op);
  form.op.target = std::string(aten) + functional;
  form.op.outputs.resize(1, -1);
  form.changes_type = is_comparison(functional) || promotes(graph, op, self->value);
  if (name == "bernoulli_" && op.overload == "float") form.op.overload = "p";
  return form;
}

std::optional<Operator> put_back(const Graph& graph, const Operator& view, ValueId base,
                                 ValueId part) {
  if (view.outputs.size() != 1 || view.arguments.empty()) return std::nullopt;
  switch (traits_of(view).view) {
    case View::shape: return reshape(graph, base, part);
    case View::swap: return swap(view, part);
    case View::permutation: return inverse_permutation(view, part);
    case View::part: return scatter(view, view.target + "_scatter", base, part);
    case View::never:
    case View::perhaps:
    case View::shape_or_copy:
    case View::other: break;
  }
  return std::nullopt;
}

}  // namespace penstock
