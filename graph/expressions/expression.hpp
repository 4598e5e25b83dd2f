// Symbolic sizes: integer and floating-point expressions in the batch size, for tensors' dimensions
// and arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace penstock {

/// Immutable and cheap to copy. Every expression has at most one free symbol, the batch size.
class Expression {
 public:
  using Number = std::variant<int64_t, double>;

  Expression(int64_t value = 0);  // NOLINT: a dimension is usually a plain integer
  static Expression constant(double value);
  static Expression batch();

  /// Parses sympy's own print as torch.export writes it (`Mul(Integer(4), Symbol('s77', …))`);
  /// `symbol` is the batch symbol's name. Throws InputError on another symbol or function.
  static Expression parse(std::string_view sympy, std::string_view symbol);

  /// `function` as sympy or the exporter's operators name it (`FloorDiv`, `Max`), applied to
  /// `arguments`; folded where none depends on the batch. Throws InputError for an unknown function
  /// or a wrong number of arguments.
  static Expression apply(std::string_view function, std::vector<Expression> arguments);

  /// The value for a batch of `batch` samples. Integer division rounds as Python's does. Throws
  /// InputError where an integer does not fit in 64 bits or a divisor is zero.
  Number evaluate(int64_t batch) const;
  /// The same, for an expression that is an integer. Throws std::logic_error if it is not.
  int64_t at(int64_t batch) const;
  /// True unless evaluate gives a float.
  bool is_integer() const;
  bool depends_on_batch() const;
  /// `8*batch`, for people.
  std::string str() const;

  struct Node;

 private:
  explicit Expression(std::shared_ptr<const Node> node);
  int64_t constant_ = 0;              // the value if node_ is null
  std::shared_ptr<const Node> node_;  // null for a plain integer
};

}  // namespace penstock
