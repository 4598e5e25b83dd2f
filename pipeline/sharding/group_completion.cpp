#include "pipeline/sharding/group_completion.hpp"

#include <utility>

#include "base/error.hpp"

namespace penstock {

namespace {

std::optional<sharding::Completion> of_smallest(const Graph& model, const sharding::Pins& pins,
                                                int parts) try {
  return sharding::complete(model, pins, smallest_microbatch(model), parts);
} catch (const InputError&) {  // pins may need more samples
  return std::nullopt;
}

}  // namespace

int64_t smallest_microbatch(const Graph& model) {
  return model.dynamic_batch ? model.min_batch : model.example_batch;
}

GroupCompletions::GroupCompletions(const Graph& model, sharding::Pins pins, int parts)
    : model_(model),
      pins_(std::move(pins)),
      parts_(parts),
      smallest_(of_smallest(model, pins_, parts)) {}

sharding::Completion GroupCompletions::at(int64_t microbatch) const {
  if (!smallest_ || !sharding::holds_at(model_, *smallest_, microbatch))
    return sharding::complete(model_, pins_, microbatch, parts_);
  sharding::Completion completion = *smallest_;
  completion.batch = microbatch;
  return completion;
}

sharding::Completion group_completion(const Graph& model, const sharding::Pins& pins,
                                      int64_t microbatch, int parts) {
  return GroupCompletions(model, pins, parts).at(microbatch);
}

}  // namespace penstock
