// What one sample of a job's data has to be: the model's inputs, and the target of the loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// The name under which data holds what the loss compares with.
inline constexpr const char* kTarget = "target";
/// A class that the cross-entropy leaves out, as in PyTorch.
inline constexpr int64_t kIgnoredTarget = -100;

/// Dtype and shape that an input or the target must have at batch 1; integers may be of any width.
struct ExpectedSample {
  std::string name;
  DType dtype = DType::float32;
  std::vector<int64_t> shape;
  /// Ids lie in [0, limit): rows of the embedding that reads them, classes of the cross-entropy.
  std::optional<int64_t> limit = std::nullopt;
  std::optional<int64_t> ignored = std::nullopt;  // or are this one, which no loss counts
};

/// All inputs in the model's order, and the target where the loss needs one. Throws InputError
/// where the model's inputs or output have no samples.
std::vector<ExpectedSample> expected_samples(const Job& job, const Graph& model,
                                             bool with_target = true);

}  // namespace penstock
