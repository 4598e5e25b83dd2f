// Collects the results of a run's ranks on rank 0 and writes them as .safetensors.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/communication/gather.hpp"
#include "backend/stage/recipe/store.hpp"
#include "backend/worker/loaded_plan.hpp"
#include "base/safetensors.hpp"

namespace penstock {

/// All ranks call the same member functions at the same points of a run; rank 0 writes the files.
class Collector {
 public:
  Collector(const LoadedPlan& loaded, Communicator& communicator)
      : loaded_(loaded), communicator_(communicator) {}

  /// Begins a file with the tensor outputs of so many steps of forwards, under their names. Like
  /// the two below it throws InputError if it cannot write.
  void open_outputs(const std::string& path, int64_t steps);
  /// Writes those of the next step, by index in Graph::outputs, replicas in ascending order, which
  /// is the order of the samples. Does nothing without a file.
  void add_outputs(const std::map<int, at::Tensor>& outputs);
  void close_outputs();
  /// Writes the stored gradients, each under the first name of its parameter; zeros where none
  /// came.
  void write_gradients(TensorStore& store, const std::string& path) const;

 private:
  std::vector<Piece> output_pieces() const;
  int owner_of_output(int index) const;

  const LoadedPlan& loaded_;
  Communicator& communicator_;
  bool collects_ = false;
  std::vector<int> outputs_;               // in Graph::outputs, those that are tensors
  std::optional<SafetensorsWriter> file_;  // of them, on rank 0
  std::vector<int64_t> written_;           // bytes of each
};

}  // namespace penstock
