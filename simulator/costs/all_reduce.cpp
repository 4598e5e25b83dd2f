#include "simulator/costs/all_reduce.hpp"

#include <algorithm>
#include <bit>

namespace penstock {

namespace {

double ring_s(const Link& link, int64_t bytes, int64_t ranks) {
  const double rounds = 2.0 * static_cast<double>(ranks - 1);
  const double moved = rounds / static_cast<double>(ranks) * static_cast<double>(bytes);
  return rounds * link.latency_s + (link.bandwidth > 0 ? moved / link.bandwidth : 0.0);
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

BucketedAllReduce bucketed_all_reduce(const AllReduce& how, const Link& link, int64_t bytes,
                                      int64_t ranks) {
  if (ranks < 2 || bytes <= 0) return {};
  const int64_t bucket = how.bucket_bytes > 0 ? std::min(how.bucket_bytes, bytes) : bytes;
  return {static_cast<int>((bytes + bucket - 1) / bucket),
          all_reduce_s(how.algorithm, link, bucket, ranks)};
}

}  // namespace penstock
