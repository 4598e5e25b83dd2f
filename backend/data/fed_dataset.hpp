// The batches that a script feeds, as data: the samples of step k are those in its slot now.
#pragma once

#include <map>

#include "launch/shared_batch.hpp"
#include "launch/shared_memory.hpp"
#include "pipeline/job/dataset.hpp"
#include "pipeline/plan/validation_parts.hpp"

namespace penstock {

/// The places of a global batch, so many of them a script's. They take the samples
/// [first, first + samples) that it passes; those behind them have none of their own.
struct FedPlaces {
  int64_t global_batch = 0, of_script = 0;
  int64_t first = 0, samples = 0;
};

/// The places of a step in microbatches of the part's size, which takes that part of what each
/// script passes.
FedPlaces places_of(const ValidationPart& part, const SharedBatch& batch, const Plan& plan);

class FedDataset : public Dataset {
 public:
  /// `expected`: types of the samples. Throws std::system_error where the memory is not there.
  FedDataset(const SharedBatch& batch, const std::vector<ExpectedSample>& expected,
             const FedPlaces& places);

  int64_t samples() const override { return kEndless; }
  SampleType type(const std::string& name) const override;
  /// Samples by their places, of one script. Throws std::logic_error for samples or a tensor that
  /// this rank is not given.
  void read(const std::string& name, int64_t first,
            std::span<std::byte> destination) const override;
  std::string place(const std::string& name, int64_t sample, int64_t element) const override;

 private:
  struct Fed {
    SampleType type;
    int64_t offset;
  };
  const Fed& fed(const std::string& name) const;
  int64_t index(int64_t place) const;

  const FedPlaces places_;
  const int64_t samples_, script_, slot_bytes_, slots_;
  SharedMemory memory_;
  std::map<std::string, Fed> tensors_;
};

}  // namespace penstock
