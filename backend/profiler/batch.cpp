#include "backend/profiler/batch.hpp"

#include "backend/device/device.hpp"

namespace penstock::profiler {
namespace {

/// The job on data that never ends where it has none of its own.
Job with_data(Job job) {
  if (job.has_data()) return job;
  job.random_data = true;
  job.shuffle = false;
  job.last_batch.reset();
  return job;
}

}  // namespace

Batches::Batches(const Job& job, const Graph& model, at::Device where)
    : model_(model),
      where_(where),
      made_up_(!job.has_data()),
      expected_(expected_samples(job, model)),
      data_(with_data(job), model) {}

Batch Batches::read(int64_t first, int64_t count) const {
  Batch batch;
  for (size_t i = 0; i < expected_.size(); ++i) {  // the model's inputs in order, then the target
    const ExpectedSample& sample = expected_[i];
    at::Tensor tensor = on_device(data_.read(sample.name, first, count), where_);
    if (i < model_.inputs.size()) {
      batch.inputs[model_.inputs[i]] = std::move(tensor);
    } else {
      batch.target = std::move(tensor);
    }
  }
  return batch;
}

}  // namespace penstock::profiler
