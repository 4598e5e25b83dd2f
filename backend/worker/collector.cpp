#include "backend/worker/collector.hpp"

#include <algorithm>

#include "backend/data/safetensors.hpp"
#include "backend/executor/transfers.hpp"
#include "backend/operators/dtype.hpp"

namespace penstock {

/// The rank of the pipeline whose stage produces the output.
int Collector::owner_of_output(int index) const {
  const auto& stages = loaded_.slicing.stages;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    if (std::ranges::count(stages[stage].outputs, index) > 0) {
      return loaded_.program.rank_of_stage[stage];
    }
  }
  return loaded_.program.rank_of_stage.back();
}

/// Outputs that are tensors: one piece for each replica. `indices` gets the output of each piece.
std::vector<Piece> Collector::output_pieces(std::vector<int>& indices) const {
  const Plan& plan = loaded_.plan;
  std::vector<Piece> pieces;
  for (size_t i = 0; i < loaded_.graph.outputs.size(); ++i) {
    const auto* reference = std::get_if<TensorRef>(&loaded_.graph.outputs[i].value);
    if (reference == nullptr) continue;
    const Value& value = loaded_.graph.values[reference->value];
    std::vector<int64_t> shape;
    for (const Expression& size : value.shape) shape.push_back(size.at(plan.microbatch));
    if (shape.empty()) shape.push_back(1);  // a number for each microbatch
    shape[0] *= plan.microbatches;
    for (int replica = 0; replica < plan.data_parallel; ++replica) {
      pieces.push_back({replica * plan.ranks() + owner_of_output(static_cast<int>(i)), shape,
                        scalar_type(value.dtype)});
      indices.push_back(static_cast<int>(i));
    }
  }
  return pieces;
}

void Collector::add_outputs(const std::map<int, at::Tensor>& outputs) {
  std::vector<int> indices;
  const std::vector<Piece> pieces = output_pieces(indices);
  const auto gathered =
      gather_tensors(communicator_, pieces, free_tag(loaded_.program, loaded_.slicing),
                     [&](size_t i) { return outputs.at(indices[i]); });
  for (size_t i = 0; i < gathered.size(); ++i) outputs_[indices[i]].push_back(gathered[i]);
}

void Collector::write_outputs(const std::string& path) const {
  if (communicator_.rank() != 0) return;
  NamedTensors tensors;
  for (const auto& [index, parts] : outputs_) {
    tensors.emplace_back(loaded_.graph.outputs[index].name, at::cat(parts));
  }
  write_tensors(path, tensors);
}

void Collector::write_gradients(TensorStore& store, const std::string& path) const {
  const Graph& graph = loaded_.graph;
  std::map<int, int> owners;  // of trainable tensors: the rank of the first stage that has it
  for (size_t stage = 0; stage < loaded_.slicing.stages.size(); ++stage) {
    for (const int tensor : loaded_.slicing.stages[stage].tensors) {
      if (graph.tensors[tensor].requires_grad) {
        owners.emplace(tensor, loaded_.program.rank_of_stage[stage]);
      }
    }
  }
  std::vector<Piece> pieces;
  std::vector<int> indices;
  for (const auto& [tensor, owner] : owners) {
    const StoredTensor& stored = graph.tensors[tensor];
    pieces.push_back({owner, stored.sizes, store.sum_type(scalar_type(stored.dtype))});
    indices.push_back(tensor);
  }
  const auto gradients = gather_tensors(
      communicator_, pieces, free_tag(loaded_.program, loaded_.slicing), [&](size_t i) {
        const at::Tensor gradient = store.gradient(indices[i]);
        return gradient.defined() ? gradient : at::zeros(pieces[i].shape, pieces[i].type);
      });
  if (communicator_.rank() != 0) return;
  NamedTensors tensors;
  for (size_t i = 0; i < gradients.size(); ++i) {
    tensors.emplace_back(graph.tensors[indices[i]].name, gradients[i]);
  }
  write_tensors(path, tensors);
}

}  // namespace penstock
