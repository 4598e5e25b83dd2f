// Sizes as torch.export prints them mean what Python computes.
#include "graph/expressions/expression.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Expression parse(const std::string& text) { return Expression::parse(text, "s77"); }
const std::string s = "Symbol('s77', positive=True, integer=True)";

double real(const Expression& expression, int64_t size) {
  return std::get<double>(expression.evaluate(size));
}

TEST(Expression, PlainIntegersAndTheBatch) {
  EXPECT_EQ(Expression(7).at(3), 7);
  EXPECT_FALSE(Expression(7).depends_on_batch());
  EXPECT_EQ(Expression::batch().at(3), 3);
  EXPECT_EQ(parse(s).at(5), 5);
  EXPECT_TRUE(parse(s).depends_on_batch());
}

TEST(Expression, SumsAndProducts) {
  EXPECT_EQ(parse("Mul(Integer(4), " + s + ")").at(6), 24);
  EXPECT_EQ(parse("Add(Mul(Integer(2), " + s + "), Integer(-1))").at(6), 11);
  EXPECT_EQ(parse("Pow(" + s + ", Integer(3))").at(4), 64);
  EXPECT_EQ(parse("Max(Integer(3), " + s + ")").at(2), 3);
  EXPECT_EQ(parse("Min(Integer(3), " + s + ")").at(2), 2);
}

TEST(Expression, DivisionRoundsAsInPython) {
  // Python: -7 // 2 == -4, -7 % 2 == 1, 7 // -2 == -4, 7 % -2 == -1.
  const auto divide = [](int64_t a, int64_t b) {
    return Expression::apply("FloorDiv", {a, b}).at(1);
  };
  const auto rest = [](int64_t a, int64_t b) { return Expression::apply("Mod", {a, b}).at(1); };
  EXPECT_EQ(divide(-7, 2), -4);
  EXPECT_EQ(divide(7, -2), -4);
  EXPECT_EQ(divide(-8, 2), -4);
  EXPECT_EQ(rest(-7, 2), 1);
  EXPECT_EQ(rest(7, -2), -1);
  EXPECT_EQ(Expression::apply("CeilDiv", {7, 2}).at(1), 4);
  EXPECT_EQ(Expression::apply("ModularIndexing", {17, 3, 4}).at(1), 1);
}

TEST(Expression, HalfOfAnEvenBatchIsAnInteger) {
  const Expression half = parse("Mul(Rational(1, 2), " + s + ")");
  EXPECT_EQ(half.at(6), 3);
  EXPECT_DOUBLE_EQ(real(half, 5), 2.5);
  EXPECT_DOUBLE_EQ(real(parse("Mul(Rational(1, 2), ToFloat(" + s + "))"), 6), 3);
}

TEST(Expression, Floats) {
  EXPECT_DOUBLE_EQ(real(parse("Float('1.5', precision=53)"), 1), 1.5);
  EXPECT_DOUBLE_EQ(real(parse("Mul(Float('1.5', precision=53), ToFloat(" + s + "))"), 3), 4.5);
  EXPECT_EQ(parse("TruncToInt(Mul(Float('1.5', precision=53), ToFloat(" + s + ")))").at(3), 4);
  EXPECT_DOUBLE_EQ(real(parse("IntTrueDiv(" + s + ", Integer(2))"), 3), 1.5);
  EXPECT_DOUBLE_EQ(real(parse("OpaqueUnaryFn_sqrt(" + s + ")"), 9), 3);
}

TEST(Expression, ConstantsAreFolded) {
  const Expression folded = Expression::apply("Mul", {Expression(3), Expression(4)});
  EXPECT_FALSE(folded.depends_on_batch());
  EXPECT_EQ(folded.str(), "12");
}

TEST(Expression, PrintsForPeople) {
  EXPECT_EQ(parse("Add(Mul(Integer(8), " + s + "), Integer(1))").str(), "(8*batch) + 1");
  EXPECT_EQ(parse("Max(Integer(3), " + s + ")").str(), "Max(3, batch)");
}

TEST(Expression, RefusesWhatItCannotMean) {
  EXPECT_THAT([] { parse("Symbol('u0', integer=True)"); },
              ThrowsMessage<InputError>(HasSubstr("computed from a tensor's values")));
  EXPECT_THAT([] { parse("Symbol('s12', integer=True)"); },
              ThrowsMessage<InputError>(HasSubstr("symbol s12")));
  EXPECT_THAT([] { parse("Bessel(Integer(1))"); },
              ThrowsMessage<InputError>(HasSubstr("Bessel is not known")));
  for (const char* broken :
       {"", "Mul(", "Mul(Integer(1)", "Integer(x)", "Integer(1))", "Mod(Integer(1))", "Float('x')",
        "Symbol('s77", "Integer(99999999999999999999)"})
    EXPECT_THROW(parse(broken), InputError) << broken;
}

TEST(Expression, RefusesDeepNestingInsteadOfOverflowingTheStack) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "Mul(";
  EXPECT_THROW(parse(deep), InputError);
}

TEST(Expression, RefusesOverflowAndDivisionByZero) {
  const Expression huge = parse("Mul(Integer(4611686018427387904), " + s + ")");
  EXPECT_EQ(huge.at(1), int64_t{1} << 62);
  EXPECT_THROW(huge.at(2), InputError);
  EXPECT_THROW(Expression::apply("FloorDiv", {Expression(1), Expression(0)}), InputError);
  EXPECT_THROW(Expression::apply("Mod", {Expression(1), Expression(0)}), InputError);
  EXPECT_THROW(Expression::apply("FloorDiv", {Expression(INT64_MIN), Expression(-1)}), InputError);
}

}  // namespace
}  // namespace penstock
