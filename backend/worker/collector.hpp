// Collects the results of a run's ranks on rank 0 and writes them as .safetensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/communication/gather.hpp"
#include "backend/stage/recipe/store.hpp"
#include "backend/worker/loaded_plan.hpp"

namespace penstock {

/// All ranks call the same member functions at the same points of a run; rank 0 writes the files.
class Collector {
 public:
  Collector(const LoadedPlan& loaded, Communicator& communicator)
      : loaded_(loaded), communicator_(communicator) {}

  /// Keeps the tensor outputs of one step of forwards, by index in Graph::outputs, replicas in
  /// ascending order, which is the order of the samples.
  void add_outputs(const std::map<int, at::Tensor>& outputs);
  /// Writes the kept outputs under their names. Throws InputError if it cannot write.
  void write_outputs(const std::string& path) const;
  /// Writes the stored gradients, each under the first name of its parameter; zeros where none
  /// came.
  void write_gradients(TensorStore& store, const std::string& path) const;

 private:
  std::vector<Piece> output_pieces(std::vector<int>& indices) const;
  int owner_of_output(int index) const;

  const LoadedPlan& loaded_;
  Communicator& communicator_;
  std::map<int, std::vector<at::Tensor>> outputs_;  // by index, on rank 0
};

}  // namespace penstock
