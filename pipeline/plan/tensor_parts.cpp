#include "pipeline/plan/tensor_parts.hpp"

#include <algorithm>

namespace penstock {

TensorPart part_of(const GradientBucket& bucket, size_t i, size_t member) {
  const int64_t range = bucket.elements / static_cast<int64_t>(bucket.ranks.size());
  const int64_t first = static_cast<int64_t>(member) * range;
  const GradientPlace& place = bucket.places[i];
  const auto within = [&](int64_t element) {
    return std::clamp(element - place.begin, int64_t{0}, place.elements);
  };
  return {within(first), within(first + range)};
}

TensorParts parts_of(const std::vector<GradientBucket>& buckets, int rank) {
  TensorParts parts;
  for (const GradientBucket& bucket : buckets) {
    if (!bucket.sharded) continue;
    const auto member = std::ranges::find(bucket.ranks, rank) - bucket.ranks.begin();
    for (size_t i = 0; i < bucket.tensors.size(); ++i)
      parts[bucket.tensors[i]] = part_of(bucket, i, static_cast<size_t>(member));
  }
  return parts;
}

}  // namespace penstock
