// Collects the results of a run's ranks on rank 0 and writes them as .safetensors.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/communication/gather.hpp"
#include "backend/data/safetensors.hpp"
#include "backend/stage/recipe/store.hpp"
#include "backend/worker/loaded_plan.hpp"
#include "base/safetensors.hpp"

namespace penstock {

/// All ranks call the same member functions at the same points of a run; rank 0 writes the files.
class Collector {
 public:
  Collector(const LoadedPlan& loaded, Communicator& communicator);

  /// Begins a file with the tensor outputs of so many steps of forwards, under their names. Like
  /// the two below it throws InputError if it cannot write.
  void open_outputs(const std::string& path, int64_t steps);
  /// Writes those of the next step, by index in Graph::outputs, replicas in ascending order, which
  /// is the order of the samples. Does nothing without a file.
  void add_outputs(const std::map<int, at::Tensor>& outputs);
  void close_outputs();
  /// The outputs of a step of microbatches of that size under their names, on rank 0.
  NamedTensors outputs_of_step(const std::map<int, at::Tensor>& outputs, int64_t microbatch) const;
  /// Writes the stored gradients, each under the first name of its parameter; zeros where none
  /// came.
  void write_gradients(TensorStore& store, const std::string& path) const;
  /// The model's state_dict(): what a rank holds as it is now, the rest as it was at the start.
  NamedTensors state_dict(TensorStore& store, const MatchedWeights* weights) const;

 private:
  std::vector<Piece> output_pieces(int64_t microbatch) const;
  std::vector<at::Tensor> gather_outputs(const std::map<int, at::Tensor>& outputs,
                                         int64_t microbatch) const;
  int owner_of_output(int index) const;
  int parts_of(int tensor) const;
  using OfTensor = std::function<at::Tensor(int index)>;
  std::map<int, at::Tensor> gather_stored(const std::function<bool(const StoredTensor&)>& taken,
                                          const std::function<at::ScalarType(DType)>& type,
                                          const OfTensor& own) const;

  const LoadedPlan& loaded_;
  Communicator& communicator_;
  bool collects_ = false;
  std::vector<int> outputs_;               // in Graph::outputs, those that are tensors
  std::optional<SafetensorsWriter> file_;  // of them, on rank 0
  std::vector<int64_t> written_;           // bytes of each
};

}  // namespace penstock
