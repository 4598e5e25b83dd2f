#include "pipeline/sharding/group_completion.hpp"

#include <utility>

#include "base/error.hpp"

namespace penstock {

namespace {

std::optional<sharding::Completion> of_smallest(const Graph& model, sharding::FirstOutput first,
                                                const sharding::Pins& pins, int parts) try {
  return sharding::complete(model, pins, smallest_microbatch(model), parts, 1, first);
} catch (const InputError&) {  // pins may need more samples
  return std::nullopt;
}

}  // namespace

int64_t smallest_microbatch(const Graph& model) {
  return model.dynamic_batch ? model.min_batch : model.example_batch;
}

sharding::FirstOutput first_output(const LossSpec& loss) {
  return loss.kind == Loss::cross_entropy ? sharding::FirstOutput::logits
                                          : sharding::FirstOutput::any;
}

GroupCompletions::GroupCompletions(const Graph& model, const LossSpec& loss, sharding::Pins pins,
                                   int parts)
    : model_(model),
      first_(first_output(loss)),
      pins_(std::move(pins)),
      parts_(parts),
      smallest_(of_smallest(model, first_, pins_, parts)) {}

sharding::Completion GroupCompletions::at(int64_t microbatch) const {
  if (!smallest_ || !sharding::holds_at(model_, pins_, *smallest_, microbatch))
    return sharding::complete(model_, pins_, microbatch, parts_, 1, first_);
  sharding::Completion completion = *smallest_;
  completion.batch = microbatch;
  return completion;
}

sharding::Completion group_completion(const Graph& model, const LossSpec& loss,
                                      const sharding::Pins& pins, int64_t microbatch, int parts) {
  return GroupCompletions(model, loss, pins, parts).at(microbatch);
}

}  // namespace penstock
