// Traces, as `compare` reads them: what is accepted is written as a trace that reads as the same.
#include <cmath>

#include "pipeline/program/timeline.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace penstock;
using namespace penstock::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto trace =
      accepted("trace.json:", [&] { return parse_trace(text_of(data, size), "trace.json"); });
  if (!trace) return 0;
  const Trace again = parse_trace(to_chrome_trace(*trace), "written");
  require(again.title == trace->title && again.timeline == trace->timeline &&
              again.memory == trace->memory,
          "a trace reads as it was written");
  require(std::isfinite(makespan_s(trace->timeline)), "a makespan is finite");
  return 0;
}
