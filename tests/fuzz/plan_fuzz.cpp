// Plans: what is accepted is written as a plan that reads as the same.
#include "pipeline/plan/plan.hpp"

#include "tests/fuzz/fuzz.hpp"

using namespace penstock;
using namespace penstock::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* file = "/penstock/plan.yaml";
  const auto plan =
      accepted(file, [&] { return parse_plan(std::string(text_of(data, size)), file); });
  if (!plan) return 0;
  require(plan->ranks() >= 1, "a plan has a rank");
  const auto written = accepted(not_utf8, [&] { return to_yaml(*plan, file); });
  if (!written) return 0;
  require(to_yaml(parse_plan(*written, file), file) == *written, "a plan reads as it was written");
  return 0;
}
