// Jobs: what is accepted is written as a job that reads as the same.
#include "pipeline/job/job.hpp"

#include "base/yaml.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace penstock;
using namespace penstock::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* file = "/penstock/job.yaml";
  const auto read = [&](const std::string& text) {
    return parse_job(parse_yaml(text, file, "job"), file);
  };
  const auto job = accepted(file, [&] { return read(std::string(text_of(data, size))); });
  if (!job) return 0;
  const auto written = accepted(not_utf8, [&] { return to_yaml(*job, file); });
  if (written) require(read(*written) == *job, "a job reads as it was written");
  return 0;
}
