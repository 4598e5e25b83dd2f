#include "graph/expressions/expression.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "graph/expressions/expression_functions.hpp"

namespace penstock {

/// A float constant (no function, no arguments), the batch (function null, `batch`) or a function.
struct Expression::Node {
  const SizeFunction* function = nullptr;
  std::vector<Expression> arguments;
  double constant = 0;
  bool batch = false;
};

Expression::Expression(int64_t value) : constant_(value) {}
Expression::Expression(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

Expression Expression::constant(double value) {
  return Expression(std::make_shared<const Node>(Node{nullptr, {}, value, false}));
}

Expression Expression::batch() {
  return Expression(std::make_shared<const Node>(Node{nullptr, {}, 0, true}));
}

Expression Expression::apply(std::string_view function, std::vector<Expression> arguments) {
  const SizeFunction& applied = size_function(function, arguments.size());
  bool depends = false;
  for (const Expression& argument : arguments) depends |= argument.depends_on_batch();
  Expression whole(std::make_shared<const Node>(Node{&applied, std::move(arguments), 0, false}));
  if (depends) return whole;
  const Number value = whole.evaluate(1);
  if (const auto* integer = std::get_if<int64_t>(&value)) return Expression(*integer);
  return constant(std::get<double>(value));
}

Expression::Number Expression::evaluate(int64_t batch) const {
  if (!node_) return constant_;
  if (node_->batch) return batch;
  if (!node_->function) return node_->constant;
  std::vector<Number> values;
  for (const Expression& argument : node_->arguments) values.push_back(argument.evaluate(batch));
  return node_->function->evaluate(values);
}

int64_t Expression::at(int64_t batch) const {
  const Number value = evaluate(batch);
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  throw std::logic_error("not an integer: " + str());
}

bool Expression::is_integer() const {
  if (!node_ || node_->batch) return true;
  if (!node_->function) return false;
  return std::holds_alternative<int64_t>(evaluate(2));
}

bool Expression::depends_on_batch() const {
  if (!node_) return false;
  if (node_->batch) return true;
  for (const Expression& argument : node_->arguments)
    if (argument.depends_on_batch()) return true;
  return false;
}

std::string Expression::str() const {
  if (!node_) return fmt::format("{}", constant_);
  if (node_->batch) return "batch";
  if (!node_->function) return fmt::format("{}", node_->constant);
  const std::string_view infix = node_->function->infix;
  std::string text;
  for (const Expression& argument : node_->arguments) {
    if (!text.empty()) text += infix.empty() ? ", " : infix;
    const bool nested =
        argument.node_ && argument.node_->function && !argument.node_->function->infix.empty();
    text += nested && !infix.empty() ? fmt::format("({})", argument.str()) : argument.str();
  }
  return infix.empty() ? fmt::format("{}({})", node_->function->name, text) : text;
}

}  // namespace penstock
