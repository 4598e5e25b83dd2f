#include "base/quantity.hpp"

#include <gmock/gmock.h>

#include "tests/base/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Quantity, Times) {
  EXPECT_DOUBLE_EQ(parse_seconds("1ms", ""), 1e-3);
  EXPECT_DOUBLE_EQ(parse_seconds("650us", ""), 650e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("650µs", ""), 650e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("5ns", ""), 5e-9);
  EXPECT_DOUBLE_EQ(parse_seconds("2 s", ""), 2);
  EXPECT_DOUBLE_EQ(parse_seconds("3min", ""), 180);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5h", ""), 5400);
  EXPECT_DOUBLE_EQ(parse_seconds(" 1e-5 ", ""), 1e-5);
  EXPECT_EQ(parse_seconds("0", ""), 0);
}

TEST(Quantity, Bytes) {
  EXPECT_EQ(parse_bytes("16MB", ""), 16'000'000);
  EXPECT_EQ(parse_bytes("16MiB", ""), 16 << 20);
  EXPECT_EQ(parse_bytes("80GiB", ""), int64_t{80} << 30);
  EXPECT_EQ(parse_bytes("1.5 KiB", ""), 1536);
  EXPECT_EQ(parse_bytes("4kB", ""), 4000);
  EXPECT_EQ(parse_bytes("2TB", ""), 2'000'000'000'000);
  EXPECT_EQ(parse_bytes("7", ""), 7);
  EXPECT_EQ(parse_bytes("9223372036854775807", ""), INT64_MAX) << "exactly, not as a double";
}

TEST(Quantity, Rates) {
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("25GB/s", ""), 25e9);
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("1GiB/s", ""), 1073741824);
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("200Gbit/s", ""), 25e9);
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("8 Mbit/s", ""), 1e6);
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("100", ""), 100);
}

TEST(Quantity, MistakesAreRefusedWithPlaceValueAndCure) {
  const std::pair<const char*, const char*> cases[] = {{"", "is empty"},
                                                       {"  ", "is empty"},
                                                       {"fast", "does not begin"},
                                                       {"-1ms", "is negative"},
                                                       {"nan", "not finite"},
                                                       {"inf", "not finite"},
                                                       {"1e999", "out of range"},
                                                       {"1e308h", "out of range"},
                                                       {"3MB", "unknown unit `MB`"},
                                                       {"1 m s", "unknown unit `m s`"},
                                                       {"+1", "does not begin"},
                                                       {"1MS", "unknown unit `MS`"}};
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(input_error([&text = text] { parse_seconds(text, "--forward"); }),
                AllOf(StartsWith(std::string("--forward: `") + text + "`"), HasSubstr(problem),
                      HasSubstr("Write seconds")));
  }
  EXPECT_THAT(input_error([] { parse_bytes("1ms", "--saved"); }), HasSubstr("unknown unit `ms`"));
  EXPECT_THAT(input_error([] { parse_bytes("9223372036854775808", ""); }),
              HasSubstr("out of range"));
  EXPECT_THAT(input_error([] { parse_bytes("9000000TiB", ""); }), HasSubstr("out of range"));
  EXPECT_THAT(input_error([] { parse_bytes("9.5e18", ""); }), HasSubstr("out of range"));
  EXPECT_THAT(input_error([] { parse_bytes("1GB/s", ""); }), HasSubstr("unknown unit `GB/s`"));
  EXPECT_THAT(input_error([] { parse_bytes_per_second("25GB", ""); }),
              HasSubstr("unknown unit `GB`"));
  EXPECT_THAT(input_error([] { parse_bytes_per_second("25/s", ""); }),
              HasSubstr("unknown unit `/s`"));
  EXPECT_THAT(input_error([] { parse_bytes_per_second("25Gb/s", ""); }), HasSubstr("Gb/s"));
}

TEST(Quantity, PrintsThreeDigits) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(0.00123456), "1.23 ms");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(1234), "1234 s");
  EXPECT_EQ(format_seconds(9.996e-6), "10.0 us") << "rounding may add a digit";
  EXPECT_EQ(format_seconds(0.9996e-3), "1.00 ms") << "or reach the next unit";
  EXPECT_EQ(format_seconds(1.5e-10), "0.15 ns");
  EXPECT_EQ(format_bytes(512.0), "512 B");
  EXPECT_EQ(format_bytes(16.0 * (1 << 20)), "16.0 MiB");
  EXPECT_EQ(format_bytes(1000. * (1 << 20)), "0.98 GiB");
  EXPECT_EQ(format_bytes_per_second(25e9), "25.0 GB/s");
  EXPECT_EQ(format_count(1.24e9), "1.24 G");
  EXPECT_EQ(format_count(123), "123");
  EXPECT_EQ(format_count(45'600), "45.6 k");
}

}  // namespace
}  // namespace penstock
