// Functions that size expressions consist of: those of sympy and torch.utils._sympy.functions that
// torch.export writes, with Python's arithmetic. Internal to graph/.
#pragma once

#include <span>
#include <string_view>

#include "graph/expressions/expression.hpp"

namespace penstock {

struct SizeFunction {
  using Number = Expression::Number;
  std::string_view name;
  size_t min_arguments, max_arguments;
  std::string_view infix;  // as people write it; empty: NAME(…)
  Number (*evaluate)(std::span<const Number> arguments);
};

/// Throws InputError for an unknown name or a number of arguments that it does not take.
const SizeFunction& size_function(std::string_view name, size_t arguments);

}  // namespace penstock
