// A job's data as tensors: one microbatch at a time, in the model's dtypes.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/data/fed_dataset.hpp"
#include "launch/shared_batch.hpp"
#include "pipeline/job/dataset.hpp"
#include "pipeline/job/sample_order.hpp"

namespace penstock {

/// The samples that a run takes, by their places in its global batches (sample_order.hpp).
class Data {
 public:
  /// Opens and checks the job's data; forwards alone need no target, and take samples in order.
  /// Throws InputError.
  Data(const Job& job, const Graph& model, bool with_target = true);
  /// The batches that a script feeds, in the order in which it does.
  Data(const SharedBatch& batch, const FedPlaces& places, const Job& job, const Graph& model,
       bool with_target);

  /// An input or the target at places [first, first + count) of the run. Where a place fills up the
  /// last batch of an epoch its input is a sample of the data, and its targets are ignored. Throws
  /// InputError for an id that is out of range, naming the file, the place in it and the range.
  at::Tensor read(const std::string& name, int64_t first, int64_t count) const;

  /// Samples [first, first + samples) alone, which then count from 0, of the same files.
  Data part(int64_t first, int64_t samples) const;
  /// How many there are before they start over.
  int64_t samples() const { return samples_; }
  /// Has the place a sample of its own, which an evaluation counts?
  bool has_sample(int64_t place) const { return place % period_ < samples_; }
  /// Is there what the loss compares with, as far as it needs it?
  bool with_target() const { return with_target_; }

  /// Can this rank read all samples, or only those of its own microbatches and stages?
  bool complete() const { return complete_; }

  /// The number of targets at these places that the cross-entropy counts.
  int64_t counted_targets(int64_t first, int64_t count) const;
  /// Can a target be ignored at all? Not in text, unless its last batch is filled up.
  bool has_ignored_targets() const { return ignorable_; }

 private:
  const ExpectedSample& expected(const std::string& name) const;
  int64_t sample(int64_t place) const { return order_.sample(place).value_or(0); }
  void read_samples(const std::string& name, int64_t first, int64_t count,
                    std::span<std::byte> destination) const;
  void check_range(const ExpectedSample& expected, const at::Tensor& ids, int64_t first) const;
  void ignore_padding(at::Tensor& target, int64_t first) const;

  std::shared_ptr<const Dataset> data_;
  std::vector<ExpectedSample> expected_;
  bool with_target_ = true;
  int64_t first_ = 0, samples_ = 0, period_ = kEndless;  // places
  SampleOrder order_;
  bool ignorable_ = false, complete_ = true;
};

}  // namespace penstock
