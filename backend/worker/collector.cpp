#include "backend/worker/collector.hpp"

#include <algorithm>
#include <utility>
#include <variant>

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

/// Of each output, one piece for each replica.
std::vector<Piece> Collector::output_pieces() const {
  const Plan& plan = loaded_.plan;
  std::vector<Piece> pieces;
  for (const int output : outputs_) {
    const Value& value =
        loaded_.graph.values
            [std::get<TensorRef>(loaded_.graph.outputs[static_cast<size_t>(output)].value).value];
    std::vector<int64_t> shape;
    for (const Expression& size : value.shape) shape.push_back(size.at(plan.microbatch));
    if (shape.empty()) shape.push_back(1);  // a number for each microbatch
    shape[0] *= plan.microbatches;
    for (int replica = 0; replica < plan.data_parallel; ++replica) {
      pieces.push_back(
          {replica * plan.ranks() + owner_of_output(output), shape, scalar_type(value.dtype)});
    }
  }
  return pieces;
}

void Collector::open_outputs(const std::string& path, int64_t steps) {
  collects_ = true;
  for (size_t i = 0; i < loaded_.graph.outputs.size(); ++i) {
    if (std::holds_alternative<TensorRef>(loaded_.graph.outputs[i].value))
      outputs_.push_back(static_cast<int>(i));
  }
  if (communicator_.rank() != 0) return;
  const std::vector<Piece> pieces = output_pieces();
  const auto replicas = static_cast<size_t>(loaded_.plan.data_parallel);
  std::vector<SafetensorsPlace> tensors;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Piece& piece = pieces[i * replicas];
    std::vector<int64_t> shape = piece.shape;
    shape[0] *= steps * loaded_.plan.data_parallel;
    tensors.push_back({loaded_.graph.outputs[static_cast<size_t>(outputs_[i])].name,
                       dtype_of(piece.type), std::move(shape)});
  }
  file_.emplace(path, tensors);
  written_.assign(outputs_.size(), 0);
}

void Collector::add_outputs(const std::map<int, at::Tensor>& outputs) {
  if (!collects_) return;
  const auto replicas = static_cast<size_t>(loaded_.plan.data_parallel);
  const auto gathered =
      gather_tensors(communicator_, output_pieces(), free_tag(loaded_.program, loaded_.slicing),
                     [&](size_t i) { return outputs.at(outputs_[i / replicas]); });
  for (size_t i = 0; i < gathered.size(); ++i) {
    const at::Tensor piece = gathered[i].to(at::kCPU).contiguous();
    int64_t& written = written_[i / replicas];
    file_->write(i / replicas, written, bytes_of(piece));
    written += static_cast<int64_t>(piece.nbytes());
  }
}

void Collector::close_outputs() {
  if (file_) file_->commit();
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
