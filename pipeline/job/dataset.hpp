// A job's data as bytes, without LibTorch: its samples by number.
//
// Three kinds: tensors of `.safetensors` files, windows of text and tokens, and made-up samples, a
// file each (tensor_dataset.hpp, text_dataset.hpp, random_dataset.hpp). Which of the samples a step
// takes is told by sample_order.hpp.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pipeline/job/expected_samples.hpp"

namespace penstock {

/// Type and shape of one sample under some name.
struct SampleType {
  DType dtype = DType::uint8;
  std::vector<int64_t> shape;  // without the sample dimension
  int64_t bytes() const;       // of one sample
  std::string str() const;     // `int64 [samples, 32]`
};

/// The number of samples of data that never ends.
inline constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t samples() const = 0;
  /// Throws InputError if there is nothing of that name.
  virtual SampleType type(const std::string& name) const = 0;
  /// Samples first, first + 1, … one after the other; the last lies below samples().
  virtual void read(const std::string& name, int64_t first,
                    std::span<std::byte> destination) const = 0;
  /// Where an element of a sample lies, for messages: a file and the place in it.
  virtual std::string place(const std::string& name, int64_t sample, int64_t element) const = 0;
};

/// Opens the job's data and checks it against the model's inputs and its loss. Throws InputError
/// naming file, tensor, and what was expected and found; in training also for a last batch that
/// cannot be as the job says. Forwards alone need no target.
std::unique_ptr<Dataset> open_dataset(const Job& job, const Graph& model, bool with_target = true);

/// Throws InputError unless `found` is what the model takes, but for the width of integers.
void check_type(const std::string& place, const SampleType& found, const ExpectedSample& expected);

}  // namespace penstock
