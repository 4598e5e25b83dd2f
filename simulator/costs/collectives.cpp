#include "simulator/costs/collectives.hpp"

#include <algorithm>
#include <bit>

namespace penstock {

namespace {

double ring_s(const Link& link, int64_t bytes, int64_t ranks) {
  const double rounds = 2.0 * static_cast<double>(ranks - 1);
  return rounds * link.latency_s +
         (link.bandwidth > 0 ? summed_bytes(bytes, ranks) / link.bandwidth : 0.0);
}

double tree_s(const Link& link, int64_t bytes, int64_t ranks) {
  const double levels = std::bit_width(static_cast<uint64_t>(ranks - 1));
  return 2 * levels * link.transfer_s(bytes);
}

}  // namespace

double all_reduce_s(AllReduce::Algorithm algorithm, const Link& link, int64_t bytes,
                    int64_t ranks) {
  if (ranks < 2 || bytes <= 0) return 0;
  switch (algorithm) {
    case AllReduce::Algorithm::ring: return ring_s(link, bytes, ranks);
    case AllReduce::Algorithm::tree: return tree_s(link, bytes, ranks);
    case AllReduce::Algorithm::fastest: break;
  }
  return std::min(ring_s(link, bytes, ranks), tree_s(link, bytes, ranks));
}

double collective_s(sharding::Step step, int64_t bytes, int parts, const Link& link) {
  const int64_t sent = sharding::bytes_sent(step, bytes, parts);
  if (sent == 0) return 0;
  const int rounds = (step == sharding::Step::all_reduce ? 2 : 1) * (parts - 1);
  const double moving_s = link.bandwidth > 0 ? static_cast<double>(sent) / link.bandwidth : 0;
  return rounds * (link.latency_s + link.propagation_s) + moving_s;
}

double summed_bytes(int64_t bytes, int64_t ranks) {
  const double rounds = 2.0 * static_cast<double>(ranks - 1);
  return rounds / static_cast<double>(ranks) * static_cast<double>(bytes);
}

}  // namespace penstock
