#include "graph/operators/facts.hpp"

#include <string_view>

#include "graph/operators/table.hpp"

namespace penstock {
namespace {

/// An argument that makes the operator random where it is above 0, and one that can forbid it.
struct DropoutArguments {
  const char* probability;
  double default_probability;
  const char* train;
  bool default_train;
};

bool drops(const Operator& op, const DropoutArguments& names) {
  return number(op, names.probability, names.default_probability) > 0 &&
         flag(op, names.train, names.default_train);
}

/// Does it write the running statistics that it is given?
bool writes_statistics(const Operator& op, const char* training) {
  if (op.overload.starts_with("no_stats")) return false;
  const ArgumentValue* mean = argument(op, "running_mean");
  return mean && std::holds_alternative<TensorRef>(*mean) && flag(op, training, true);
}

/// `add.out`, `relu_`, `__iadd__`.
bool named_as_writing(const Operator& op) {
  if (op.overload == "out" || op.overload.ends_with("_out")) return true;
  const std::string_view target = op.target;
  if (target.ends_with('_') && !target.ends_with("__")) return true;
  const bool infix = target.starts_with("aten::__i") || target.starts_with("prims::__i");
  return infix && target.ends_with("__") && !target.ends_with("::__invert__");
}

}  // namespace

bool is_view(const Operator& op) {
  const OperatorTraits::View view = effects_of(op).view;
  return view != OperatorTraits::View::never && view != OperatorTraits::View::perhaps;
}

bool may_be_view(const Operator& op) {
  const OperatorTraits::View view = traits_of(op).view;
  const bool may_be =
      view == OperatorTraits::View::perhaps || view == OperatorTraits::View::shape_or_copy;
  return may_be && !is_random(op);
}

bool is_inactive_dropout(const Operator& op) {
  return traits_of(op).random == OperatorTraits::Random::dropout && may_be_view(op);
}

bool is_random(const Operator& op) {
  using Random = OperatorTraits::Random;
  switch (effects_of(op).random) {
    case Random::never: return false;
    case Random::always: return true;
    case Random::dropout: return drops(op, {"p", 0.5, "train", true});
    case Random::attention_dropout: return drops(op, {"dropout_p", 0, "", true});
    case Random::recurrent_dropout: return drops(op, {"dropout", 0, "train", false});
    case Random::training: return flag(op, "training", false);
  }
  return false;
}

bool is_assertion(const Operator& op) { return effects_of(op).assertion; }

bool stops_gradient(const Operator& op) {
  return effects_of(op).gradient == OperatorTraits::Gradient::stopped;
}

bool stops_gradient(const Operator& op, size_t output) {
  const OperatorTraits::Gradient gradient = effects_of(op).gradient;
  return gradient == OperatorTraits::Gradient::stopped ||
         (output > 0 && gradient == OperatorTraits::Gradient::first_output_only);
}

bool is_mutating(const Operator& op) {
  using Writes = OperatorTraits::Writes;
  if (named_as_writing(op)) return true;
  const Writes writes = effects_of(op).writes;
  return (writes == Writes::statistics && writes_statistics(op, "training")) ||
         (writes == Writes::instance_statistics && writes_statistics(op, "use_input_stats"));
}

bool counts_targets(const Operator& op) { return traits_of(op).counts_targets; }

std::string full_name(const Operator& op) {
  return op.overload.empty() ? op.target : op.target + "." + op.overload;
}

const ArgumentValue* argument(const Operator& op, const std::string& name) {
  for (const Argument& candidate : op.arguments)
    if (candidate.name == name) return &candidate.value;
  return nullptr;
}

double number(const Operator& op, const std::string& name, double otherwise) {
  const ArgumentValue* value = argument(op, name);
  if (!value) return otherwise;
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  return otherwise;
}

bool flag(const Operator& op, const std::string& name, bool otherwise) {
  const ArgumentValue* value = argument(op, name);
  const bool* truth = value ? std::get_if<bool>(value) : nullptr;
  return truth ? *truth : otherwise;
}

}  // namespace penstock
