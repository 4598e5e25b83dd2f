#include "pipeline/job/expected_samples.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "graph/analysis/id_range.hpp"

namespace penstock {

namespace {

/// Sizes after the first dimension, for a batch of 1.
std::vector<int64_t> sample_shape(const Value& value, const std::string& model) {
  if (value.shape.empty()) {
    throw InputError(model, fmt::format("{} is a scalar and has no samples", value.name),
                     "Give the model inputs whose first dimension is the batch.");
  }
  std::vector<int64_t> shape;
  for (size_t i = 1; i < value.shape.size(); ++i) shape.push_back(value.shape[i].at(1));
  return shape;
}

/// A target is a row of a file, whose size no microbatch changes.
void check_sample_size(const Value& output, const std::string& model) {
  for (size_t i = 1; i < output.shape.size(); ++i) {
    if (!output.shape[i].depends_on_batch()) continue;
    throw InputError(model,
                     fmt::format("dimension {} of its output `{}` depends on the batch ({}), so no "
                                 "target can be saved for a sample",
                                 i, output.name, output.shape[i].str()),
                     "Compute the loss in the model and give `loss: output`, or fix the batch: "
                     "tools/export_model.py --static.");
  }
}

ExpectedSample expected_input(const Graph& model, ValueId input) {
  const Value& value = model.values[input];
  ExpectedSample sample{value.name, value.dtype, sample_shape(value, model.path)};
  if (is_floating(value.dtype)) return sample;
  if (const std::optional<IdRange> ids = id_range(model, input)) {
    sample.limit = ids->limit;
    sample.ignored = ids->ignored;
  }
  return sample;
}

ExpectedSample expected_target(const Job& job, const Graph& model) {
  const std::optional<ValueId> output = model.first_output();
  if (!output) {
    throw InputError(model.path, "its first output is not a tensor, which the loss needs",
                     "Return the prediction first.");
  }
  const Value& value = model.values[*output];
  check_sample_size(value, model.path);
  ExpectedSample target{kTarget, value.dtype, sample_shape(value, model.path)};
  if (job.loss.kind != Loss::cross_entropy) return target;
  if (target.shape.empty()) {
    throw InputError(model.path, "cross_entropy needs an output with classes in the last dimension",
                     "Use loss: mse, or return [batch, …, classes].");
  }
  target.limit = target.shape.back();
  target.ignored = kIgnoredTarget;
  target.shape.pop_back();
  target.dtype = DType::int64;
  return target;
}

}  // namespace

std::vector<ExpectedSample> expected_samples(const Job& job, const Graph& model, bool with_target) {
  std::vector<ExpectedSample> samples;
  for (const ValueId input : model.inputs) samples.push_back(expected_input(model, input));
  if (with_target && job.loss.kind != Loss::output) samples.push_back(expected_target(job, model));
  return samples;
}

}  // namespace penstock
