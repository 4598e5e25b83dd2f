// Trained weights back to PyTorch: the model's own state_dict() as .safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "graph/graph.hpp"
#include "graph/pt2/initial_values.hpp"
#include "pipeline/checkpoint/saved.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

/// All parameters and persistent buffers under the names that the module's state_dict() gives them,
/// a tied one under each of its names. What training changes comes from the checkpoint; all else,
/// and everything without a checkpoint, from the `.pt2`, or as its modules initialise it where that
/// was exported without weights.
class StateDict {
 public:
  /// Reads no values; `model` has to outlive it. Throws InputError for a checkpoint of another
  /// model or job, one that lacks a tensor, and for a tensor without values.
  StateDict(const Plan& plan, const Graph& model,
            const std::optional<IntactCheckpoint>& checkpoint);
  ~StateDict();
  StateDict(const StateDict&) = delete;
  StateDict& operator=(const StateDict&) = delete;

  /// The tensors whose values have to be made, by index in Graph::tensors.
  const std::map<int, InitialValues>& initialised() const;

  /// Makes such a tensor's values: fills in all of its bytes, contiguous.
  using Initialise =
      std::function<void(const StoredTensor&, const InitialValues&, std::span<std::byte>)>;
  /// One tensor at a time is in memory. `initialise` may be empty where nothing is initialised.
  /// Returns how many names it wrote. Throws InputError where the checkpoint has a tensor in
  /// another shape, and where `output` cannot be written.
  int64_t write(const std::filesystem::path& output, const Initialise& initialise = nullptr) const;

 private:
  class Saved;
  class Values;
  std::unique_ptr<const Values> values_;
};

}  // namespace penstock
