#include "pipeline/job/dataset.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"
#include "graph/analysis/coupling.hpp"
#include "pipeline/job/random_dataset.hpp"
#include "pipeline/job/sample_order.hpp"
#include "pipeline/job/tensor_dataset.hpp"
#include "pipeline/job/text_dataset.hpp"

namespace penstock {

int64_t SampleType::bytes() const {
  int64_t bytes = size_bytes(dtype);
  for (const int64_t size : shape) bytes *= size;
  return bytes;
}

std::string SampleType::str() const {
  std::string text = fmt::format("{} [samples", name(dtype));
  for (const int64_t size : shape) text += fmt::format(", {}", size);
  return text + "]";
}

namespace {

bool is_integer(DType dtype) { return !is_floating(dtype) && dtype != DType::boolean; }

std::unique_ptr<Dataset> open_kind(const Job& job, const std::vector<ExpectedSample>& expected) {
  if (job.random_data) return std::make_unique<RandomDataset>(job, expected);
  if (job.data.empty()) {
    throw InputError("job", "data is missing",
                     "Name the files to train on under `data`, or write `data: random`.");
  }
  if (std::filesystem::path(job.data.front()).extension() == ".safetensors")
    return std::make_unique<TensorDataset>(job.data, expected);
  return open_text(job, expected);
}

/// Samples that fill up a batch count in no loss, but would in what couples the samples.
void check_padding(const Graph& model) {
  const std::vector<Coupling> found = couplings(model, analyse(model));
  if (found.empty() && !model.batch_coupled.value_or(false)) return;
  throw InputError(
      "last_batch: pad",
      fmt::format("the samples of a batch influence each other in {}{}, so those that "
                  "fill it up would count",
                  model.path, found.empty() ? "" : " (" + describe(model, found.front()) + ")"),
      "Write `last_batch: drop`.");
}

}  // namespace

void check_type(const std::string& place, const SampleType& found, const ExpectedSample& expected) {
  const bool dtype =
      found.dtype == expected.dtype || (is_integer(found.dtype) && is_integer(expected.dtype));
  if (dtype && found.shape == expected.shape) return;
  throw InputError(place,
                   fmt::format("is {}, but the model takes {}", found.str(),
                               SampleType{expected.dtype, expected.shape}.str()),
                   "Save it with that dtype and shape, or export the model for this data.");
}

std::unique_ptr<Dataset> open_dataset(const Job& job, const Graph& model, bool with_target) {
  std::unique_ptr<Dataset> data = open_kind(job, expected_samples(job, model, with_target));
  if (!with_target) return data;
  check_global_batch(job, data->samples());
  if (job.last_batch == LastBatch::pad) check_padding(model);
  return data;
}

}  // namespace penstock
