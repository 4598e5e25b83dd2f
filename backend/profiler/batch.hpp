// The microbatches that are measured: the job's data, or made-up data where the job has none.
#pragma once

#include <optional>
#include <vector>

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

  /// The job has no data of its own.
  bool made_up() const { return made_up_; }
  /// Samples [first, first + count) of the run, the same at every call.
  Batch read(int64_t first, int64_t count) const;

 private:
  const Graph& model_;
  at::Device where_;
  bool made_up_;
  std::vector<ExpectedSample> expected_;
  Data data_;
};

}  // namespace penstock::profiler
