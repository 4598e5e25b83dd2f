// The batches that a script feeds, as data: the samples of step k are those in its slot now.
#pragma once

#include <map>

#include "launch/shared_batch.hpp"
#include "launch/shared_memory.hpp"
#include "pipeline/job/dataset.hpp"

namespace penstock {

class FedDataset : public Dataset {
 public:
  /// `expected`: types of the samples. Throws std::system_error where the memory is not there.
  FedDataset(const SharedBatch& batch, const std::vector<ExpectedSample>& expected,
             int64_t global_batch);

  int64_t samples() const override { return kEndless; }
  SampleType type(const std::string& name) const override;
  /// Throws std::logic_error for samples or a tensor that this rank is not given.
  void read(const std::string& name, int64_t first,
            std::span<std::byte> destination) const override;
  std::string place(const std::string& name, int64_t sample, int64_t element) const override;

 private:
  struct Fed {
    SampleType type;
    int64_t offset;
  };
  const Fed& fed(const std::string& name) const;

  const int64_t first_, samples_, global_batch_, slot_bytes_, slots_;
  SharedMemory memory_;
  std::map<std::string, Fed> tensors_;
};

}  // namespace penstock
