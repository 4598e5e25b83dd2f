#include "backend/profiler/batch.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include "backend/device/device.hpp"
#include "backend/operators/dtype.hpp"

namespace penstock::profiler {
namespace {

at::Tensor make_up(const ExpectedSample& sample, int64_t first, int64_t count) {
  std::vector<int64_t> shape{count};
  shape.insert(shape.end(), sample.shape.begin(), sample.shape.end());
  const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(first));
  if (is_floating(sample.dtype)) {
    return at::randn(shape, generator, at::TensorOptions(at::kFloat)).to(scalar_type(sample.dtype));
  }
  return at::randint(sample.limit.value_or(2), shape, generator, at::TensorOptions(at::kLong))
      .to(scalar_type(sample.dtype));
}

}  // namespace

Batches::Batches(const Job& job, const Graph& model, at::Device where)
    : model_(model), where_(where), expected_(expected_samples(job, model)) {
  if (!job.data.empty()) data_ = std::make_unique<Data>(job, model);
}

Batch Batches::read(int64_t first, int64_t count) const {
  Batch batch;
  for (size_t i = 0; i < expected_.size(); ++i) {  // the model's inputs in order, then the target
    const ExpectedSample& sample = expected_[i];
    at::Tensor tensor =
        data_ ? data_->read(sample.name, first, count) : make_up(sample, first, count);
    tensor = on_device(std::move(tensor), where_);
    if (i < model_.inputs.size()) {
      batch.inputs[model_.inputs[i]] = std::move(tensor);
    } else {
      batch.target = std::move(tensor);
    }
  }
  return batch;
}

}  // namespace penstock::profiler
