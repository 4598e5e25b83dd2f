#include "backend/profiler/timing/probes.hpp"

#include <algorithm>
#include <cmath>

#include "backend/device/probe.hpp"

namespace penstock::profiler {
namespace {

struct Range {
  double mean = 0, relative = 0;  // (max - min) / mean
};

Range range(const std::vector<Probe>& probes, double Probe::*seconds) {
  double sum = 0, min = probes.front().*seconds, max = min;
  for (const Probe& probe : probes) {
    sum += probe.*seconds;
    min = std::min(min, probe.*seconds);
    max = std::max(max, probe.*seconds);
  }
  const double mean = sum / double(probes.size());
  return {mean, mean > 0 ? (max - min) / mean : 0};
}

}  // namespace

Probe combine(const std::vector<Probe>& probes) {
  const Range gemm = range(probes, &Probe::gemm_s), copy = range(probes, &Probe::copy_s);
  return {
      .gemm_s = gemm.mean, .copy_s = copy.mean, .spread = std::max(gemm.relative, copy.relative)};
}

void settle_clocks(ComputeDevice& device) {
  if (device.where().is_cpu()) return;
  double before = 0;
  for (int i = 0; i < 50; ++i) {
    const double now = run_probe(device).gemm_s;
    if (std::abs(now - before) <= 0.02 * now) return;
    before = now;
  }
}

}  // namespace penstock::profiler
