#include "pipeline/plan/validation_parts.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace penstock {

std::vector<ValidationPart> validation_parts(const std::string& place, const Plan& plan,
                                             const Graph& model, int64_t samples) {
  const int64_t left = samples % plan.microbatch, full = samples - left;
  std::vector<ValidationPart> parts;
  if (full > 0) parts.push_back({0, full, plan.microbatch});
  if (left == 0) return parts;
  if (!model.dynamic_batch || left < model.min_batch) {
    throw InputError(
        place,
        fmt::format(
            "{} samples are {} more than whole microbatches of {}, and {} takes no batch of "
            "{}",
            samples, left, plan.microbatch, model.path, left),
        fmt::format("Leave {} out, or export the model with a batch that may be smaller.", left));
  }
  parts.push_back({full, left, left});
  return parts;
}

Plan with_microbatch(Plan plan, int64_t microbatch) {
  plan.microbatch = microbatch;
  plan.job.global_batch = microbatch * plan.microbatches * plan.data_parallel;
  return plan;
}

}  // namespace penstock
