// Operators that write, and views: what says the same without writing (functional.hpp).
#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "graph/functional/functional.hpp"
#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

constexpr std::string_view space = "aten::";

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, name) != list.end();
}

std::string_view short_name(const Operator& op) {
  const std::string_view target = op.target;
  return target.starts_with(space) ? target.substr(space.size()) : std::string_view();
}

/// Change what a tensor is, not what is in it, or more than their first argument.
bool writes_otherwise(std::string_view name) {
  return name.starts_with("_foreach") || name.starts_with("_fused") ||
         is_one_of(name,
                   {"set_", "resize_", "resize_as_", "unsqueeze_", "squeeze_", "t_", "transpose_",
                    "swapaxes_", "swapdims_", "as_strided_", "detach_", "requires_grad_", "rename_",
                    "rrelu_with_noise_", "embedding_renorm_", "instance_norm"});
}

/// `add_` is `add`, `__ior__` is `__or__`; few have a name of their own.
std::string functional_name(std::string_view name) {
  if (name == "normal_") return "aten::normal_functional";
  if (name.starts_with("__i")) return "aten::__" + std::string(name.substr(3));
  return std::string(space) + std::string(name.substr(0, name.size() - 1));
}

bool is_comparison(std::string_view name) {
  return is_one_of(name, {"eq_", "ne_", "lt_", "le_", "gt_", "ge_", "logical_and_", "logical_or_",
                          "logical_xor_", "logical_not_", "not_equal_", "less_", "less_equal_",
                          "greater_", "greater_equal_"});
}

/// Its result is of the type that its operands have in common.
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
  form.op.target = "aten::_native_batch_norm_legit_functional";
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
  if (name == "batch_norm" || (name == "_native_batch_norm_legit" && op.overload.empty()))
    return batch_norm(op);
  const auto* self =
      op.arguments.empty() ? nullptr : std::get_if<TensorRef>(&op.arguments[0].value);
  const bool own_output = op.overload == "out" || op.overload.ends_with("_out");
  const bool in_place = name.starts_with("__i") || name.ends_with('_');
  if (!self || !in_place || own_output || op.outputs.size() > 1 || writes_otherwise(name))
    return std::nullopt;
  if (name == "copy_") return copy(graph, op, self->value);
  FunctionalForm form{op, {{op.arguments[0].name, 0}}};
  form.op.target = functional_name(name);
  form.op.outputs.resize(1, -1);
  form.changes_type = is_comparison(name) || promotes(graph, op, self->value);
  if (name == "bernoulli_" && op.overload == "float") form.op.overload = "p";
  return form;
}

bool may_be_view(const Operator& op) {
  if (is_random(op)) return false;  // a dropout that drops
  return is_one_of(short_name(op), {"reshape",
                                    "reshape_as",
                                    "flatten",
                                    "ravel",
                                    "contiguous",
                                    "to",
                                    "type_as",
                                    "cpu",
                                    "dropout",
                                    "feature_dropout",
                                    "alpha_dropout",
                                    "feature_alpha_dropout",
                                    "sum_to_size",
                                    "conj",
                                    "conj_physical",
                                    "resolve_conj",
                                    "resolve_neg",
                                    "_autocast_to_reduced_precision",
                                    "_autocast_to_full_precision",
                                    "atleast_1d",
                                    "atleast_2d",
                                    "atleast_3d",
                                    "linalg_diagonal",
                                    "broadcast_tensors",
                                    "meshgrid",
                                    "einsum",
                                    "pixel_shuffle",
                                    "pixel_unshuffle"});
}

std::optional<Operator> put_back(const Graph& graph, const Operator& view, ValueId base,
                                 ValueId part) {
  const std::string_view name = short_name(view);
  if (view.outputs.size() != 1 || view.arguments.empty()) return std::nullopt;
  const Argument self{"self", TensorRef{part}};
  if (is_one_of(name, {"view", "_unsafe_view", "_reshape_alias", "view_as", "alias", "squeeze",
                       "unsqueeze", "unflatten"})) {
    if (graph.values[base].dtype != graph.values[part].dtype) return std::nullopt;
    return make("aten::reshape", {self, {"shape", graph.values[base].shape}});
  }
  if (is_one_of(name, {"t", "transpose", "swapaxes", "swapdims"})) {
    Operator op = view;
    op.arguments[0].value = TensorRef{part};
    op.outputs.clear();
    return op;
  }
  if (name == "permute") {
    const ArgumentValue* dims = argument(view, "dims");
    const auto* order = dims ? std::get_if<std::vector<Expression>>(dims) : nullptr;
    const auto back = order ? inverse(*order) : std::nullopt;
    if (!back) return std::nullopt;
    return make("aten::permute", {self, {"dims", *back}});
  }
  if (name == "select") return scatter(view, "aten::select_scatter", base, part);
  if (name == "slice") return scatter(view, "aten::slice_scatter", base, part);
  if (name == "diagonal") return scatter(view, "aten::diagonal_scatter", base, part);
  return std::nullopt;
}

}  // namespace penstock
