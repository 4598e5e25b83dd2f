// Made-up samples for trying a plan out: whatever the model and its loss take.
#pragma once

#include <string>
#include <vector>

#include "pipeline/job/dataset.hpp"

namespace penstock {

/// Never ends. Floats are nearly normal with mean 0 and variance 1 (targets of bce_with_logits
/// uniform in [0, 1)), ids uniform over their range, truth values over both; integers of which no
/// range is known are 1, as a mask has it that leaves nothing out. Each element is a function of
/// the job's seed, the tensor, the sample and its position.
class RandomDataset : public Dataset {
 public:
  RandomDataset(const Job& job, const std::vector<ExpectedSample>& expected);

  int64_t samples() const override { return kEndless; }
  /// float32, int64 or boolean.
  SampleType type(const std::string& name) const override;
  void read(const std::string& name, int64_t first,
            std::span<std::byte> destination) const override;
  std::string place(const std::string& name, int64_t sample, int64_t element) const override;

 private:
  enum class Kind { normal, probability, id, truth };
  struct Column {
    ExpectedSample expected;
    Kind kind = Kind::normal;
    uint64_t key = 0;
  };
  const Column& column(const std::string& name) const;

  std::vector<Column> columns_;
};

}  // namespace penstock
