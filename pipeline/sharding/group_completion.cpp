#include "pipeline/sharding/group_completion.hpp"

#include <algorithm>

namespace penstock {

namespace {

constexpr int64_t usual_samples = 64;

}  // namespace

sharding::Completion group_completion(const Graph& model, const sharding::Pins& pins,
                                      int64_t microbatch, int parts) {
  const int64_t microbatches = std::max<int64_t>(1, usual_samples / microbatch);
  return sharding::complete(model, pins, microbatch, parts, microbatches);
}

}  // namespace penstock
