// Reads sympy's srepr, a nest of NAME(argument, …) whose leaves are Integer(4), Float('1.5',
// precision=53), Rational(1, 2) and Symbol('s77', positive=True, integer=True).
#include <fmt/format.h>

#include <cctype>
#include <charconv>

#include "base/error.hpp"
#include "graph/expressions/expression.hpp"

namespace penstock {
namespace {

constexpr int deepest_nesting = 200;

class Parser {
 public:
  Parser(std::string_view text, std::string_view symbol) : text_(text), symbol_(symbol) {}

  Expression whole() {
    Expression result = expression();
    if (position_ != text_.size()) refuse("has something after its end");
    return result;
  }

 private:
  Expression expression() {
    if (++depth_ > deepest_nesting) refuse("is nested too deeply");
    const std::string_view name = word();
    Expression result = name == "Symbol"     ? symbol()
                        : name == "Integer"  ? Expression(integer())
                        : name == "Float"    ? floating()
                        : name == "Rational" ? Expression::apply("Rational", rational())
                        : name == "Mul"      ? product()
                                             : Expression::apply(name, arguments());
    --depth_;
    return result;
  }

  /// Rational factors divide last, so that the half of an even integer is an integer.
  Expression product() {
    std::vector<Expression> factors, divisors;
    expect('(');
    do {
      if (text_.substr(position_).starts_with("Rational(")) {
        word();
        const auto fraction = rational();
        factors.push_back(fraction[0]);
        divisors.push_back(fraction[1]);
      } else {
        factors.push_back(expression());
      }
    } while (accept(','));
    expect(')');
    Expression result = Expression::apply("Mul", factors);
    for (const Expression& divisor : divisors)
      result = Expression::apply("Rational", {result, divisor});
    return result;
  }

  std::vector<Expression> arguments() {
    std::vector<Expression> list;
    expect('(');
    if (accept(')')) return list;
    do list.push_back(expression());
    while (accept(','));
    expect(')');
    return list;
  }

  Expression symbol() {
    expect('(');
    const std::string_view name = quoted();
    skip_keywords();
    if (name == symbol_) return Expression::batch();
    throw InputError(
        "size expression", fmt::format("depends on the symbol {}", name),
        name.starts_with('u') || name.starts_with('z')
            ? "It is computed from a tensor's values; Penstock takes only sizes that "
              "follow from the batch."
            : "Penstock takes one open size, the batch; fix the others in the export.");
  }

  Expression floating() {
    expect('(');
    const std::string_view digits = quoted();
    skip_keywords();
    double value = 0;
    const auto [end, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (problem != std::errc() || end != digits.data() + digits.size()) refuse("has a bad number");
    return Expression::constant(value);
  }

  int64_t integer() {
    expect('(');
    const int64_t value = digits();
    expect(')');
    return value;
  }

  std::vector<Expression> rational() {
    expect('(');
    const int64_t numerator = digits();
    expect(',');
    const int64_t denominator = digits();
    expect(')');
    return {numerator, denominator};
  }

  int64_t digits() {
    skip_space();
    int64_t value = 0;
    const char* first = text_.data() + position_;
    const auto [end, problem] = std::from_chars(first, text_.data() + text_.size(), value);
    if (problem != std::errc()) refuse("has a bad integer");
    position_ += static_cast<size_t>(end - first);
    return value;
  }

  /// The rest of a leaf: `, positive=True, integer=True)`.
  void skip_keywords() {
    const size_t end = text_.find(')', position_);
    if (end == std::string_view::npos) refuse("ends too early");
    position_ = end + 1;
  }

  std::string_view quoted() {
    expect('\'');
    const size_t end = text_.find('\'', position_);
    if (end == std::string_view::npos) refuse("ends too early");
    const std::string_view inside = text_.substr(position_, end - position_);
    position_ = end + 1;
    return inside;
  }

  std::string_view word() {
    skip_space();
    const size_t begin = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) || text_[position_] == '_'))
      ++position_;
    return text_.substr(begin, position_ - begin);
  }

  void skip_space() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }

  bool accept(char wanted) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    skip_space();
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) refuse(fmt::format("lacks '{}' at character {}", wanted, position_));
  }

  [[noreturn]] void refuse(std::string_view problem) const {
    throw InputError("size expression", fmt::format("'{}' {}", text_.substr(0, 200), problem));
  }

  std::string_view text_, symbol_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Expression Expression::parse(std::string_view sympy, std::string_view symbol) {
  return Parser(sympy, symbol).whole();
}

}  // namespace penstock
