// A job's data as tensors: one microbatch at a time, in the model's dtypes.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "pipeline/job/dataset.hpp"

namespace penstock {

class Data {
 public:
  /// Opens and checks the job's data; forwards alone need no target. Throws InputError.
  Data(const Job& job, const Graph& model, bool with_target = true);

  /// Samples [first, first + count), starting over at the end, of an input or the target. Throws
  /// InputError for an id that is out of range, naming the file, the sample and the range.
  at::Tensor read(const std::string& name, int64_t first, int64_t count) const;

  /// The number of targets among these samples that the cross-entropy counts.
  int64_t counted_targets(int64_t first, int64_t count) const;
  /// Can a target be ignored at all? Never in text.
  bool has_ignored_targets() const { return ignorable_; }

 private:
  const ExpectedSample& expected(const std::string& name) const;
  void check_range(const ExpectedSample& expected, const at::Tensor& ids, int64_t first) const;

  std::unique_ptr<Dataset> data_;
  std::vector<ExpectedSample> expected_;
  bool ignorable_ = false;
};

}  // namespace penstock
