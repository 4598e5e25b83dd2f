#include "pipeline/sharding/group_completion.hpp"

#include <optional>

#include "base/error.hpp"

namespace penstock {

namespace {

std::optional<sharding::Completion> of_smallest(const Graph& model, const sharding::Pins& pins,
                                                int64_t microbatch, int parts) try {
  sharding::Completion completion =
      sharding::complete(model, pins, smallest_microbatch(model), parts);
  if (!sharding::holds_at(model, completion, microbatch)) return std::nullopt;
  completion.batch = microbatch;
  return completion;
} catch (const InputError&) {  // pins may need more samples
  return std::nullopt;
}

}  // namespace

int64_t smallest_microbatch(const Graph& model) {
  return model.dynamic_batch ? model.min_batch : model.example_batch;
}

sharding::Completion group_completion(const Graph& model, const sharding::Pins& pins,
                                      int64_t microbatch, int parts) {
  if (auto completion = of_smallest(model, pins, microbatch, parts)) return std::move(*completion);
  return sharding::complete(model, pins, microbatch, parts);
}

}  // namespace penstock
