// The part of each tensor that a rank steps, where ranks share out the optimizer's state: a bucket
// of gradients is cut into as many equal parts as it has ranks.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pipeline/plan/gradient_buckets.hpp"

namespace penstock {

/// In elements, from the tensor's first; begin and end are equal where a rank has none of it.
struct TensorPart {
  int64_t begin = 0, end = 0;
  int64_t elements() const { return end - begin; }
  bool operator==(const TensorPart&) const = default;
};
using TensorParts = std::map<int, TensorPart>;  // by index in Graph::tensors

/// The part of the bucket's tensor at place `i` that its rank at place `member` steps.
TensorPart part_of(const GradientBucket& bucket, size_t i, size_t member);

/// The parts that `rank` of the run steps of its sharded buckets' tensors; others it steps whole.
TensorParts parts_of(const std::vector<GradientBucket>& buckets, int rank);

}  // namespace penstock
