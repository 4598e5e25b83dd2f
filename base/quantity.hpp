// Numbers with units as people write them: 1ms, 650us, 16MB (10^6), 16MiB (2^20), 25GB/s, 80GiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// Each throws InputError (place `place`) for a number that is malformed, negative, not finite or
/// has a unit of another kind. A plain number is in seconds, bytes, bytes per second.
double parse_seconds(std::string_view text, std::string_view place);
int64_t parse_bytes(std::string_view text, std::string_view place);
double parse_bytes_per_second(std::string_view text, std::string_view place);

/// A plain number in min..max, all of the text; of int64_t or double. Throws InputError.
template <typename Number>
Number parse_number(std::string_view text, std::string_view place, Number min, Number max);
/// `an integer in 1..8`, `a number in 0..1`.
template <typename Number>
std::string number_in(Number min, Number max);

/// `1.23 ms`, `16.0 MiB`, `25.0 GB/s`, `1.24 G`: three digits, for people.
std::string format_seconds(double seconds);
std::string format_bytes(double bytes);
std::string format_bytes(int64_t bytes);
std::string format_bytes_per_second(double rate);
std::string format_count(double count);
/// `1 rank`, `2 ranks`, `2 microbatches`.
std::string format_number(int64_t count, std::string_view noun);

}  // namespace penstock
