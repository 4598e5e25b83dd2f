// Numbers with units: what is accepted is finite and not negative, and can be printed.
#include "base/quantity.hpp"

#include <cmath>

#include "tests/fuzz/fuzz.hpp"

using namespace penstock;
using namespace penstock::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = text_of(data, size);
  if (const auto seconds = accepted("--flag: ", [&] { return parse_seconds(text, "--flag"); })) {
    require(std::isfinite(*seconds) && *seconds >= 0, "seconds are finite and not negative");
    format_seconds(*seconds);
  }
  if (const auto bytes = accepted("--flag: ", [&] { return parse_bytes(text, "--flag"); })) {
    require(*bytes >= 0, "bytes are not negative");
    format_bytes(*bytes);
    format_count(static_cast<double>(*bytes));
  }
  if (const auto rate =
          accepted("--flag: ", [&] { return parse_bytes_per_second(text, "--flag"); })) {
    require(std::isfinite(*rate) && *rate >= 0, "a rate is finite and not negative");
    format_bytes_per_second(*rate);
  }
  return 0;
}
