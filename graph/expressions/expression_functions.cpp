#include "graph/expressions/expression_functions.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.hpp"

namespace penstock {
namespace {

using Number = Expression::Number;
using Numbers = std::span<const Number>;

double real(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

bool both_integers(Numbers x) {
  return std::holds_alternative<int64_t>(x[0]) && std::holds_alternative<int64_t>(x[1]);
}

[[noreturn]] void refuse(std::string_view problem) {
  throw InputError("size expression", problem, "Choose a batch for which the model's sizes exist.");
}

/// An operation on two numbers: `exact` (false on overflow) where both are integers, else
/// `inexact`.
template <typename Exact, typename Inexact>
Number binary(const Number& a, const Number& b, Exact exact, Inexact inexact) {
  const std::array pair{a, b};
  if (!both_integers(pair)) return inexact(real(a), real(b));
  int64_t result = 0;
  if (!exact(std::get<int64_t>(a), std::get<int64_t>(b), &result))
    refuse("an integer does not fit in 64 bits");
  return result;
}

Number sum(const Number& a, const Number& b) {
  return binary(
      a, b, [](int64_t x, int64_t y, int64_t* r) { return !__builtin_add_overflow(x, y, r); },
      std::plus<double>());
}

Number product(const Number& a, const Number& b) {
  return binary(
      a, b, [](int64_t x, int64_t y, int64_t* r) { return !__builtin_mul_overflow(x, y, r); },
      std::multiplies<double>());
}

template <Number (*step)(const Number&, const Number&)>
Number fold(Numbers x) {
  Number result = x[0];
  for (const Number& next : x.subspan(1)) result = step(result, next);
  return result;
}

Number smaller(const Number& a, const Number& b) { return real(b) < real(a) ? b : a; }
Number larger(const Number& a, const Number& b) { return real(b) > real(a) ? b : a; }
Number negative(Numbers x) { return product(x[0], int64_t{-1}); }
Number difference(Numbers x) { return sum(x[0], product(x[1], int64_t{-1})); }

/// Python's `//`: rounds towards minus infinity.
Number floor_divide(Numbers x) {
  if (real(x[1]) == 0) refuse("a size is divided by zero");
  if (!both_integers(x)) return std::floor(real(x[0]) / real(x[1]));
  const int64_t a = std::get<int64_t>(x[0]), b = std::get<int64_t>(x[1]);
  if (b == -1) return product(x[0], int64_t{-1});  // also catches the smallest integer / -1
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

Number ceil_divide(Numbers x) {
  return negative(std::array{floor_divide(std::array{negative(x.first(1)), x[1]})});
}

/// Python's `%`: takes the sign of the divisor.
Number modulo(Numbers x) { return difference(std::array{x[0], product(floor_divide(x), x[1])}); }

/// ModularIndexing(a, b, c) is a // b % c.
Number modular_indexing(Numbers x) { return modulo(std::array{floor_divide(x.first(2)), x[2]}); }

Number divide(Numbers x) {
  if (real(x[1]) == 0) refuse("a size is divided by zero");
  return real(x[0]) / real(x[1]);
}

Number power(Numbers x) {
  if (!both_integers(x) || std::get<int64_t>(x[1]) < 0) return std::pow(real(x[0]), real(x[1]));
  int64_t exponent = std::get<int64_t>(x[1]);
  Number base = x[0], result = int64_t{1};
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = product(result, base);
    if (exponent > 1) base = product(base, base);
  }
  return result;
}

template <double (*round)(double)>
Number to_integer(Numbers x) {
  if (std::holds_alternative<int64_t>(x[0])) return x[0];
  const double whole = round(real(x[0]));
  if (!(std::abs(whole) < 0x1p63)) refuse("a number is too large for an integer");
  return static_cast<int64_t>(whole);
}

/// An exact quotient: an integer wherever the division leaves no rest.
Number rational(Numbers x) {
  return both_integers(x) && std::get<int64_t>(modulo(x)) == 0 ? floor_divide(x) : divide(x);
}

Number trunc_to_float(Numbers x) { return std::trunc(real(x[0])); }
Number to_float(Numbers x) { return real(x[0]); }
Number absolute(Numbers x) { return real(x[0]) < 0 ? negative(x) : x[0]; }
Number square_root(Numbers x) { return std::sqrt(real(x[0])); }
Number identity(Numbers x) { return x[0]; }

constexpr size_t any_number = std::numeric_limits<size_t>::max();
constexpr std::array functions = {
    SizeFunction{"Mul", 1, any_number, "*", fold<product>},
    SizeFunction{"Add", 1, any_number, " + ", fold<sum>},
    SizeFunction{"Sub", 2, 2, " - ", difference},
    SizeFunction{"Neg", 1, 1, "", negative},
    SizeFunction{"Pow", 2, 2, "^", power},
    SizeFunction{"PowByNatural", 2, 2, "^", power},
    SizeFunction{"FloatPow", 2, 2, "^", power},
    SizeFunction{"FloorDiv", 2, 2, "//", floor_divide},
    SizeFunction{"CleanDiv", 2, 2, "//", floor_divide},
    SizeFunction{"CeilDiv", 2, 2, "", ceil_divide},
    SizeFunction{"Mod", 2, 2, "%", modulo},
    SizeFunction{"PythonMod", 2, 2, "%", modulo},
    SizeFunction{"ModularIndexing", 3, 3, "", modular_indexing},
    SizeFunction{"IntTrueDiv", 2, 2, "/", divide},
    SizeFunction{"FloatTrueDiv", 2, 2, "/", divide},
    SizeFunction{"Rational", 2, 2, "/", rational},
    SizeFunction{"Max", 1, any_number, "", fold<larger>},
    SizeFunction{"Min", 1, any_number, "", fold<smaller>},
    SizeFunction{"Abs", 1, 1, "", absolute},
    SizeFunction{"TruncToInt", 1, 1, "", to_integer<std::trunc>},
    SizeFunction{"TruncToFloat", 1, 1, "", trunc_to_float},
    SizeFunction{"FloorToInt", 1, 1, "", to_integer<std::floor>},
    SizeFunction{"CeilToInt", 1, 1, "", to_integer<std::ceil>},
    SizeFunction{"RoundToInt", 1, 1, "", to_integer<std::nearbyint>},
    SizeFunction{"ToFloat", 1, 1, "", to_float},
    SizeFunction{"OpaqueUnaryFn_sqrt", 1, 1, "", square_root},
    SizeFunction{"Identity", 1, 1, "", identity},
};

}  // namespace

const SizeFunction& size_function(std::string_view name, size_t arguments) {
  for (const SizeFunction& function : functions) {
    if (function.name != name) continue;
    if (arguments < function.min_arguments || arguments > function.max_arguments)
      throw InputError("size expression", fmt::format("{} with {} arguments", name, arguments));
    return function;
  }
  throw InputError("size expression", fmt::format("the function {} is not known", name),
                   "Export with --static, which leaves no size open.");
}

}  // namespace penstock
