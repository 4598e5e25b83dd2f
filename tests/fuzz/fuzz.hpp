// Shared by the fuzz targets. libFuzzer (a part of clang) calls LLVMFuzzerTestOneInput with
// made-up input; a target must accept any. What it finds: an exception other than InputError, a
// report of ASan or UBSan, a broken promise (`require`), memory or time that a small input must not
// take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace penstock::fuzz {

/// Ends the program, which libFuzzer reports with the input, if the promise does not hold.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

/// The value that `parse` returns, or nothing where it refuses the input. A refusal begins with
/// `place`.
template <typename Parse>
auto accepted(std::string_view place, Parse parse) -> std::optional<decltype(parse())> {
  try {
    return parse();
  } catch (const InputError& error) {
    require(std::string_view(error.what()).starts_with(place), "a refusal names its place");
  }
  return std::nullopt;
}

/// How a refusal to write a name that is not UTF-8 begins: a name may be read that cannot be
/// written.
constexpr std::string_view not_utf8 = "the text `";

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace penstock::fuzz
