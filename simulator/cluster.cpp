#include "simulator/cluster.hpp"

namespace penstock {

double Link::transfer_s(int64_t bytes) const {
  return latency_s + (bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0.0);
}

double Cluster::speed(int rank) const {
  for (const NodeKind& kind : nodes) {
    rank -= kind.count * kind.devices;
    if (rank < 0) return kind.speed;
  }
  return 1;
}

}  // namespace penstock
