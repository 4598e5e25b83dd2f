// A target with a defect of each kind that fuzzing has to find: the test of the other targets'
// tests.
#include <limits>
#include <memory>
#include <stdexcept>

#include "tests/fuzz/fuzz.hpp"

using namespace penstock::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = text_of(data, size);
  if (text == "exception") throw std::runtime_error("not an InputError");
  require(text != "promise", "no input says so");
  if (text == "overflow") return static_cast<int>(size) + std::numeric_limits<int>::max() > 0;
  if (text == "beyond") return std::make_unique<int[]>(size)[size] > 0;
  if (text == "memory") return std::string(size_t{200} << 20, 'x')[size] == 'y';
  return 0;
}
