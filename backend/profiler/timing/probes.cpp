#include "backend/profiler/timing/probes.hpp"

#include <algorithm>

namespace penstock::profiler {
namespace {

struct Range {
  double mean = 0, relative = 0;  // (most - least) / mean
};

Range range(const std::vector<Probe>& probes, double Probe::*seconds) {
  double sum = 0, least = probes.front().*seconds, most = least;
  for (const Probe& probe : probes) {
    sum += probe.*seconds;
    least = std::min(least, probe.*seconds);
    most = std::max(most, probe.*seconds);
  }
  const double mean = sum / double(probes.size());
  return {mean, mean > 0 ? (most - least) / mean : 0};
}

}  // namespace

Probe combine(const std::vector<Probe>& probes) {
  const Range gemm = range(probes, &Probe::gemm_s), copy = range(probes, &Probe::copy_s);
  return {
      .gemm_s = gemm.mean, .copy_s = copy.mean, .spread = std::max(gemm.relative, copy.relative)};
}

}  // namespace penstock::profiler
