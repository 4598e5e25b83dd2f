// Brings what the ranks of a run have computed to rank 0, and writes it as .safetensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/communication/gather.hpp"
#include "backend/stage/recipe/store.hpp"
#include "backend/worker/loaded_plan.hpp"

namespace penstock {

/// All ranks call the same member functions at the same points of a run; files are rank 0's.
class Collector {
 public:
  Collector(const LoadedPlan& loaded, Communicator& communicator)
      : loaded_(loaded), communicator_(communicator) {}

  /// The tensor outputs of one step of forwards, by index in Graph::outputs: kept, replicas in
  /// ascending order, which is the order of the samples.
  void add_outputs(const std::map<int, at::Tensor>& outputs);
  /// All that were kept, each output under its name. Throws InputError if it cannot write.
  void write_outputs(const std::string& path) const;
  /// The stored gradients, each under the first of its parameter's names; zeros where none came.
  void write_gradients(TensorStore& store, const std::string& path) const;

 private:
  std::vector<Piece> output_pieces(std::vector<int>& indices) const;
  int owner_of_output(int index) const;

  const LoadedPlan& loaded_;
  Communicator& communicator_;
  std::map<int, std::vector<at::Tensor>> outputs_;  // by index, on rank 0
};

}  // namespace penstock
