// Reading and printing numbers with units.
#include "base/quantity.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.hpp"
#include "base/text.hpp"

namespace penstock {

namespace {

struct NamedUnit {
  std::string_view name;
  double factor;
};

constexpr double ki = 1024;
constexpr NamedUnit times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3},
                               {"s", 1},     {"min", 60},  {"h", 3600}};
constexpr NamedUnit sizes[] = {
    {"B", 1},     {"KB", 1e3}, {"kB", 1e3},     {"MB", 1e6},         {"GB", 1e9},
    {"TB", 1e12}, {"KiB", ki}, {"MiB", ki* ki}, {"GiB", ki* ki* ki}, {"TiB", ki* ki* ki* ki}};
constexpr NamedUnit bit_rates[] = {{"bit/s", 1. / 8},
                                   {"Kbit/s", 1e3 / 8},
                                   {"Mbit/s", 1e6 / 8},
                                   {"Gbit/s", 1e9 / 8},
                                   {"Tbit/s", 1e12 / 8}};

constexpr std::string_view time_cure =
    "Write seconds, or a number with ns, us, ms, s, min or h: 650us.";
constexpr std::string_view size_cure =
    "Write bytes, or a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB: 16MiB.";
constexpr std::string_view rate_cure =
    "Write bytes per second, or a number with KB/s … TiB/s or Kbit/s … Tbit/s: 25GB/s, 200Gbit/s.";

struct Quantity {
  std::string_view digits;
  double number;
  std::string_view unit;
};

[[noreturn]] void refuse(std::string_view text, std::string_view problem, std::string_view place,
                         std::string_view cure) {
  throw InputError(place, fmt::format("`{}` {}", text, problem), cure);
}

Quantity split(std::string_view text, std::string_view place, std::string_view cure) {
  const std::string_view trimmed = trim(text);
  if (trimmed.empty()) refuse(text, "is empty", place, cure);
  double number = 0;
  const char* begin = trimmed.data();
  const auto [end, error] = std::from_chars(begin, begin + trimmed.size(), number);
  if (error == std::errc::result_out_of_range) refuse(text, "is out of range", place, cure);
  if (error != std::errc()) refuse(text, "does not begin with a number", place, cure);
  if (!std::isfinite(number)) refuse(text, "is not finite", place, cure);
  if (std::signbit(number) && number != 0) refuse(text, "is negative", place, cure);
  const auto length = static_cast<size_t>(end - begin);
  return {trimmed.substr(0, length), std::abs(number), trim(trimmed.substr(length))};
}

double factor_of(std::string_view unit, std::span<const NamedUnit> units) {
  if (unit.empty()) return 1;
  for (const NamedUnit& named : units) {
    if (named.name == unit) return named.factor;
  }
  return 0;
}

double scaled(const Quantity& quantity, double factor, std::string_view text,
              std::string_view place, std::string_view cure) {
  if (factor == 0)
    refuse(text, fmt::format("has an unknown unit `{}`", quantity.unit), place, cure);
  const double value = quantity.number * factor;
  if (!std::isfinite(value)) refuse(text, "is out of range", place, cure);
  return value;
}

/// Three digits of a number below 1000.
std::string three_digits(double value) {
  const double magnitude = std::abs(value);
  if (magnitude < 9.995) return fmt::format("{:.2f}", value);
  return fmt::format("{:.{}f}", value, magnitude < 99.95 ? 1 : 0);
}

/// `value` in the largest of the ascending units that leaves at least 1 (0.9995 rounds to 1.00).
std::string with_unit(double value, std::span<const NamedUnit> units) {
  size_t chosen = 0;
  while (chosen + 1 < units.size() && std::abs(value) >= 999.5 * units[chosen].factor) ++chosen;
  return fmt::format("{} {}", three_digits(value / units[chosen].factor), units[chosen].name);
}

}  // namespace

double parse_seconds(std::string_view text, std::string_view place) {
  const Quantity quantity = split(text, place, time_cure);
  return scaled(quantity, factor_of(quantity.unit, times), text, place, time_cure);
}

int64_t parse_bytes(std::string_view text, std::string_view place) {
  const Quantity quantity = split(text, place, size_cure);
  const double factor = factor_of(quantity.unit, sizes);
  const double bytes = scaled(quantity, factor, text, place, size_cure);
  int64_t whole = 0;  // exactly, where a double would round
  const char* end = quantity.digits.data() + quantity.digits.size();
  const auto read = std::from_chars(quantity.digits.data(), end, whole);
  int64_t product = 0;
  if (read.ec == std::errc() && read.ptr == end) {
    if (!__builtin_mul_overflow(whole, static_cast<int64_t>(factor), &product)) return product;
    refuse(text, "is out of range", place, size_cure);
  }
  constexpr double limit = 9223372036854775808.0;  // 2^63
  if (bytes >= limit) refuse(text, "is out of range", place, size_cure);
  return std::llround(bytes);
}

double parse_bytes_per_second(std::string_view text, std::string_view place) {
  const Quantity quantity = split(text, place, rate_cure);
  double factor = factor_of(quantity.unit, bit_rates);
  if (factor == 0 && quantity.unit.ends_with("/s")) {
    const std::string_view size = quantity.unit.substr(0, quantity.unit.size() - 2);
    if (!size.empty()) factor = factor_of(size, sizes);
  }
  return scaled(quantity, factor, text, place, rate_cure);
}

template <typename Number>
std::string number_in(Number min, Number max) {
  return fmt::format("{} in {}..{}", std::is_integral_v<Number> ? "an integer" : "a number", min,
                     max);
}

template <typename Number>
Number parse_number(std::string_view text, std::string_view place, Number min, Number max) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  const bool good =
      result.ec == std::errc() && result.ptr == end && std::isfinite(static_cast<double>(value));
  if (good && value >= min && value <= max) return value;
  const std::string wanted = number_in(min, max);
  refuse(text, "is not " + wanted, place, fmt::format("Write {}.", wanted));
}

template std::string number_in(int64_t, int64_t);
template std::string number_in(double, double);
template int64_t parse_number(std::string_view, std::string_view, int64_t, int64_t);
template double parse_number(std::string_view, std::string_view, double, double);

std::string format_seconds(double seconds) {
  static constexpr NamedUnit units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  return seconds == 0 ? "0 s" : with_unit(seconds, units);
}

std::string format_bytes(double bytes) {
  static constexpr NamedUnit units[] = {{"B", 1},
                                        {"KiB", ki},
                                        {"MiB", ki * ki},
                                        {"GiB", ki * ki * ki},
                                        {"TiB", ki * ki * ki * ki},
                                        {"PiB", ki * ki * ki * ki * ki}};
  if (std::abs(bytes) < 999.5) return fmt::format("{:.0f} B", bytes);
  return with_unit(bytes, units);
}

std::string format_bytes(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

std::string format_bytes_per_second(double rate) {
  static constexpr NamedUnit units[] = {
      {"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
  return with_unit(rate, units);
}

std::string format_count(double count) {
  static constexpr NamedUnit units[] = {{"", 1},     {"k", 1e3},  {"M", 1e6}, {"G", 1e9},
                                        {"T", 1e12}, {"P", 1e15}, {"E", 1e18}};
  if (std::abs(count) < 999.5) return fmt::format("{:g}", count);
  return with_unit(count, units);
}

std::string format_number(int64_t count, std::string_view noun) {
  const std::string_view ending = count == 1 ? "" : noun.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, noun, ending);
}

}  // namespace penstock
