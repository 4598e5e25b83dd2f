// Sizes: expressions in the batch. Operators that compute them leave the graph; what they compute
// is looked up in the exporter's table or, where it lacks an entry, derived from their arguments.
#include <fmt/format.h>

#include <array>

#include "base/error.hpp"
#include "graph/pt2/reader.hpp"

namespace penstock::pt2 {
namespace {

/// The hint is the value for the example batch: a difference means that we misread the expression.
void check_hint(const ModelReader& reader, const Expression& expression, const Json& written) {
  const auto hint = written.find("hint");
  if (hint == written.end() || hint->is_null() || !hint->contains("as_int")) return;
  const Expression::Number value = expression.evaluate(reader.graph.example_batch);
  const auto expected = whole(hint->at("as_int"));
  const auto* integer = std::get_if<int64_t>(&value);
  if (!integer || *integer != expected)
    reader.refuse(fmt::format("size {} is {} in the export, which does not agree with its batch {}",
                              expression.str(), expected, reader.graph.example_batch));
}

Expression parse(ModelReader& reader, const Json& written) {
  const auto& text = written.at("expr_str").get_ref<const std::string&>();
  const auto found = reader.expressions.find(text);
  if (found != reader.expressions.end()) return found->second;
  try {
    const Expression expression = Expression::parse(text, reader.batch_symbol);
    check_hint(reader, expression, written);
    return reader.expressions.emplace(text, expression).first->second;
  } catch (const InputError& error) {
    reader.refuse(reader.at_work() + error.what());
  }
}

/// The size function that a Python operator on sizes is.
struct PythonOperator {
  std::string_view target, function;
};
constexpr std::array python_operators = {
    PythonOperator{"_operator.mul", "Mul"},
    PythonOperator{"_operator.add", "Add"},
    PythonOperator{"_operator.sub", "Sub"},
    PythonOperator{"_operator.neg", "Neg"},
    PythonOperator{"_operator.pow", "Pow"},
    PythonOperator{"_operator.mod", "Mod"},
    PythonOperator{"_operator.floordiv", "FloorDiv"},
    PythonOperator{"_operator.truediv", "IntTrueDiv"},
    PythonOperator{"torch.sym_float", "ToFloat"},
    PythonOperator{"torch.sym_int", "TruncToInt"},
    PythonOperator{"torch.sym_max", "Max"},
    PythonOperator{"torch.sym_min", "Min"},
    PythonOperator{"torch._sym_sqrt", "OpaqueUnaryFn_sqrt"},
    PythonOperator{"math.trunc", "TruncToInt"},
    PythonOperator{"math.floor", "FloorToInt"},
    PythonOperator{"math.ceil", "CeilToInt"},
    PythonOperator{"builtins.round", "RoundToInt"},
};

const Expression* from_table(ModelReader& reader, Scope& scope, const std::string& name) {
  const auto found = scope.sizes.find(name);
  if (found != scope.sizes.end()) return &found->second;
  for (const char* table : {"sym_int_values", "sym_float_values"}) {
    const auto values = scope.graph.find(table);
    if (values == scope.graph.end()) continue;
    const auto entry = values->find(name);
    if (entry == values->end()) continue;
    return &scope.sizes.emplace(name, read_size(reader, *entry)).first->second;
  }
  return nullptr;
}

/// sym_size.int(self, dim) and sym_numel(self): from the shape of a tensor.
Expression of_shape(ModelReader& reader, Scope& scope, const Json& node, bool all) {
  const Json& inputs = node.at("inputs");
  const auto name = inputs.at(0).at("arg").at("as_tensor").at("name").get<std::string>();
  const Json& sizes = scope.graph.at("tensor_values").at(name).at("sizes");
  if (!all) {
    const auto dim = whole(inputs.at(1).at("arg").at("as_int"));
    return read_size(
        reader,
        sizes.at(static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim)));
  }
  std::vector<Expression> factors{Expression(1)};
  for (const Json& size : sizes) factors.push_back(read_size(reader, size));
  return Expression::apply("Mul", factors);
}

Expression compute(ModelReader& reader, Scope& scope, const Json& node, const std::string& target) {
  if (target == "torch.ops.aten.sym_size.int") return of_shape(reader, scope, node, false);
  if (target == "torch.ops.aten.sym_numel.default") return of_shape(reader, scope, node, true);
  for (const PythonOperator& op : python_operators) {
    if (op.target != target) continue;
    std::vector<Expression> arguments;
    for (const Json& input : node.at("inputs"))
      arguments.push_back(read_size_argument(reader, scope, input.at("arg")));
    return Expression::apply(op.function, arguments);
  }
  reader.refuse(fmt::format("operator {} computes a size or number that does not follow from the "
                            "batch",
                            target),
                "Penstock trains models whose sizes do not depend on the values of tensors.");
}

/// Tests of sizes serve assertions only; nothing reads them.
bool only_truth(const Json& node) {
  for (const Json& output : node.at("outputs"))
    if (!output.contains("as_sym_bool")) return false;
  return !node.at("outputs").empty();
}

}  // namespace

Expression read_size(ModelReader& reader, const Json& size) {
  const auto [tag, value] = member(size);
  if (tag == "as_int") return Expression(whole(*value));
  if (tag == "as_float") return Expression::constant(real(*value));
  if (tag == "as_expr") return parse(reader, *value);
  reader.refuse(fmt::format("a size of kind {} is not known", tag));
}

Expression size_named(ModelReader& reader, Scope& scope, const std::string& name) {
  if (const Expression* found = from_table(reader, scope, name)) return *found;
  reader.refuse(fmt::format("the size '{}' is read before it is computed", name));
}

Expression read_size_argument(ModelReader& reader, Scope& scope, const Json& argument) {
  const auto [tag, value] = member(argument);
  if (tag == "as_int" || tag == "as_float") return read_size(reader, argument);
  if (tag == "as_sym_int" || tag == "as_sym_float") {
    const auto [inner, size] = member(*value);
    return inner == "as_name" ? size_named(reader, scope, size->get<std::string>())
                              : read_size(reader, *value);
  }
  reader.refuse(fmt::format("a size is computed from an argument of kind {}", tag));
}

bool take_size_operator(ModelReader& reader, Scope& scope, const Json& node) {
  if (only_truth(node)) return true;
  const Json& outputs = node.at("outputs");
  if (outputs.size() != 1) return false;
  const auto [tag, value] = member(outputs.front());
  if (tag != "as_sym_int" && tag != "as_sym_float") return false;
  const auto& target = node.at("target").get_ref<const std::string&>();
  const auto name = value->at("as_name").get<std::string>();
  if (!from_table(reader, scope, name))
    scope.sizes.emplace(name, compute(reader, scope, node, target));
  return true;
}

}  // namespace penstock::pt2
