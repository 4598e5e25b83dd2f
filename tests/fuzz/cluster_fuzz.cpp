// Clusters: what is accepted has links on which any message takes a time that is finite.
#include <cmath>

#include "simulator/network/cluster.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace penstock;
using namespace penstock::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* file = "/penstock/cluster.yaml";
  const auto cluster =
      accepted(file, [&] { return parse_cluster(std::string(text_of(data, size)), file); });
  if (!cluster) return 0;
  require(cluster->ranks >= 1 && cluster->memory_bytes >= 0, "a cluster has ranks and memory");
  const double time_s = cluster->link.transfer_s(int64_t{1} << 40);
  require(std::isfinite(time_s) && time_s >= 0, "a transfer's time is finite");
  return 0;
}
