// The tensors of `.safetensors` files, which are named like the model's inputs and `target`; their
// first dimension is the sample.
#pragma once

#include <string>
#include <vector>

#include "base/safetensors.hpp"
#include "pipeline/job/dataset.hpp"

namespace penstock {

/// The samples of one or several files (shards), counted across them in the order given. They are
/// read by slices, as they are asked for.
class TensorDataset : public Dataset {
 public:
  /// Throws InputError, naming file and tensor, unless each file has every tensor that is expected,
  /// all with the same number of samples, of one dtype and shape in all files.
  TensorDataset(const std::vector<std::string>& paths, const std::vector<ExpectedSample>& expected);

  int64_t samples() const override { return samples_; }
  SampleType type(const std::string& name) const override;
  void read(const std::string& name, int64_t first,
            std::span<std::byte> destination) const override;
  std::string place(const std::string& name, int64_t sample, int64_t element) const override;

 private:
  struct Shard {
    SafetensorsFile file;
    int64_t first = 0, samples = 0;
  };
  /// The one that has this sample.
  std::vector<Shard>::const_iterator shard_of(int64_t sample) const;
  void check(const Shard& shard, const ExpectedSample& expected) const;

  std::vector<Shard> shards_;
  int64_t samples_ = 0;
};

}  // namespace penstock
