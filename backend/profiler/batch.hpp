// The microbatches that are measured: the job's data, or synthetic data where the job has none.
#pragma once

#include <memory>
#include <optional>

#include "backend/data/data.hpp"
#include "backend/stage/stage.hpp"

namespace penstock::profiler {

/// All user inputs of the model, and the target where the loss needs one.
struct Batch {
  Values inputs;
  std::optional<at::Tensor> target;
};

class Batches {
 public:
  /// Throws InputError where the job names data that does not fit the model.
  Batches(const Job& job, const Graph& model, at::Device where = at::kCPU);

  bool made_up() const { return data_ == nullptr; }
  /// Samples [first, first + count). Synthetic integers are uniform over the rows of the embedding
  /// that reads them (0 and 1 where none does), floats standard normal, the same at every call.
  Batch read(int64_t first, int64_t count) const;

 private:
  const Graph& model_;
  at::Device where_;
  std::vector<ExpectedSample> expected_;
  std::unique_ptr<Data> data_;
};

}  // namespace penstock::profiler
