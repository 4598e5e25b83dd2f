// A job's data as bytes, without LibTorch: samples in order, starting over at the end.
//
// `.safetensors`: tensors named like the model's inputs and `target`; their first dimension is the
// sample. Any other file is text: its bytes are token ids, and of a `.bin` its little-endian
// uint16. The files follow each other; sample i is the window of `sequence` tokens from i x
// sequence on, its target the same shifted by one. What is left over at the end is not used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// The name under which data holds what the loss compares with.
inline constexpr const char* kTarget = "target";
/// A class that the cross-entropy leaves out, as in PyTorch.
inline constexpr int64_t kIgnoredTarget = -100;

/// Type and shape of one sample under some name.
struct SampleType {
  DType dtype = DType::uint8;
  std::vector<int64_t> shape;  // without the sample dimension
  int64_t bytes() const;       // of one sample
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t samples() const = 0;
  /// Throws InputError if there is nothing of that name.
  virtual SampleType type(const std::string& name) const = 0;
  /// Samples first, first + 1, … (modulo the number of samples), one after the other.
  virtual void read(const std::string& name, int64_t first,
                    std::span<std::byte> destination) const = 0;
  /// The files, for messages.
  virtual std::string place() const = 0;
};

/// Opens the job's data and checks it against the model's inputs and its loss. Throws InputError
/// naming the tensor and what was expected and found. Forwards alone need no target.
std::unique_ptr<Dataset> open_dataset(const Job& job, const Graph& model, bool with_target = true);

/// Dtype and shape that an input or the target must have at batch 1; integers may be of any width.
struct ExpectedSample {
  std::string name;
  DType dtype = DType::float32;
  std::vector<int64_t> shape;
  /// Ids lie in [0, limit): rows of the embedding that reads them, classes of the cross-entropy.
  std::optional<int64_t> limit;
};
/// All inputs in the model's order, and the target where the loss needs one.
std::vector<ExpectedSample> expected_samples(const Job& job, const Graph& model,
                                             bool with_target = true);

}  // namespace penstock
