#include "simulator/cluster.hpp"

namespace penstock {

double Link::transfer_s(int64_t bytes) const {
  return latency_s + (bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0.0);
}

}  // namespace penstock
