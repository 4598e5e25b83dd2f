#include "backend/worker/collector.hpp"

#include <utility>
#include <variant>

#include "backend/executor/transfers.hpp"
#include "backend/operators/dtype.hpp"
#include "backend/operators/parts.hpp"
#include "pipeline/checkpoint/state_dict.hpp"
#include "pipeline/plan/samples_read.hpp"

namespace penstock {

Collector::Collector(const LoadedPlan& loaded, Communicator& communicator)
    : loaded_(loaded), communicator_(communicator) {
  for (size_t i = 0; i < loaded.graph.outputs.size(); ++i) {
    if (std::holds_alternative<TensorRef>(loaded.graph.outputs[i].value))
      outputs_.push_back(static_cast<int>(i));
  }
}

/// The rank of the pipeline whose stage produces the output.
int Collector::owner_of_output(int index) const {
  return loaded_.program.rank_of_stage[stage_of_output(loaded_.slicing, index)];
}

/// One piece for each output and replica.
std::vector<Piece> Collector::output_pieces(int64_t microbatch) const {
  const Plan& plan = loaded_.plan;
  std::vector<Piece> pieces;
  for (const int output : outputs_) {
    const Graph& model = loaded_.whole();
    const Value& value =
        model.values[std::get<TensorRef>(model.outputs[static_cast<size_t>(output)].value).value];
    std::vector<int64_t> shape;
    for (const Expression& size : value.shape) shape.push_back(size.at(microbatch));
    if (shape.empty()) shape.push_back(1);  // a number for each microbatch
    shape[0] *= plan.microbatches;
    for (int replica = 0; replica < plan.data_parallel; ++replica) {
      pieces.push_back(
          {plan.rank_at({replica, owner_of_output(output), 0}), shape, scalar_type(value.dtype)});
    }
  }
  return pieces;
}

void Collector::open_outputs(const std::string& path, int64_t steps) {
  collects_ = true;
  if (communicator_.rank() != 0) return;
  const std::vector<Piece> pieces = output_pieces(loaded_.plan.microbatch);
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

std::vector<at::Tensor> Collector::gather_outputs(const std::map<int, at::Tensor>& outputs,
                                                  int64_t microbatch) const {
  const auto replicas = static_cast<size_t>(loaded_.plan.data_parallel);
  return gather_tensors(communicator_, output_pieces(microbatch),
                        free_tag(loaded_.program, loaded_.slicing),
                        [&](size_t i) { return outputs.at(outputs_[i / replicas]); });
}

void Collector::add_outputs(const std::map<int, at::Tensor>& outputs) {
  if (!collects_) return;
  const auto replicas = static_cast<size_t>(loaded_.plan.data_parallel);
  const auto gathered = gather_outputs(outputs, loaded_.plan.microbatch);
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

NamedTensors Collector::outputs_of_step(const std::map<int, at::Tensor>& outputs,
                                        int64_t microbatch) const {
  const auto gathered = gather_outputs(outputs, microbatch);
  const auto replicas = static_cast<std::ptrdiff_t>(loaded_.plan.data_parallel);
  NamedTensors tensors;
  for (auto first = gathered.begin(); first != gathered.end(); first += replicas) {
    const auto output = static_cast<size_t>(outputs_[tensors.size()]);
    tensors.emplace_back(loaded_.graph.outputs[output].name,
                         at::cat(std::vector<at::Tensor>(first, first + replicas)));
  }
  return tensors;
}

/// The tensor's parts in a tensor group; one where each rank has it whole.
int Collector::parts_of(int tensor) const {
  const bool split = loaded_.group && loaded_.group->layouts[tensor].is_split();
  return split ? loaded_.group->parts : 1;
}

/// By index in Graph::tensors, on rank 0: each from the rank of the first stage that has it, which
/// `own` gives there, or put together of the parts of its tensor group.
std::map<int, at::Tensor> Collector::gather_stored(
    const std::function<bool(const StoredTensor&)>& taken,
    const std::function<at::ScalarType(DType)>& type, const OfTensor& own) const {
  std::map<int, int> owners;
  for (size_t stage = 0; stage < loaded_.slicing.stages.size(); ++stage) {
    for (const int tensor : loaded_.slicing.stages[stage].tensors) {
      if (taken(loaded_.graph.tensors[tensor]))
        owners.emplace(tensor, loaded_.program.rank_of_stage[stage]);
    }
  }
  std::vector<Piece> pieces;
  std::vector<int> indices;
  for (const auto& [tensor, owner] : owners) {
    const StoredTensor& stored = loaded_.graph.tensors[tensor];
    for (int part = 0; part < parts_of(tensor); ++part) {
      pieces.push_back({loaded_.plan.rank_at({0, owner, part}), stored.sizes, type(stored.dtype)});
      indices.push_back(tensor);
    }
  }
  const auto gathered =
      gather_tensors(communicator_, pieces, free_tag(loaded_.program, loaded_.slicing),
                     [&](size_t i) { return own(indices[i]); });
  std::map<int, at::Tensor> tensors;
  for (auto next = gathered.begin(); next != gathered.end();) {
    const int tensor = indices[next - gathered.begin()];
    const auto end = next + parts_of(tensor);
    tensors[tensor] =
        end - next == 1 ? *next : sharding::assembled({next, end}, loaded_.group->layouts[tensor]);
    next = end;
  }
  return tensors;
}

void Collector::write_gradients(TensorStore& store, const std::string& path) const {
  const auto type = [&](DType dtype) { return store.sum_type(scalar_type(dtype)); };
  const auto gathered = gather_stored(
      [](const StoredTensor& tensor) { return tensor.requires_grad; }, type,
      [&](int index) {
        const StoredTensor& stored = loaded_.graph.tensors[index];
        const at::Tensor gradient = store.gradient(index);
        return gradient.defined() ? gradient : at::zeros(stored.sizes, type(stored.dtype));
      });
  if (communicator_.rank() != 0) return;
  NamedTensors tensors;
  for (const auto& [index, gradient] : gathered)
    tensors.emplace_back(loaded_.graph.tensors[index].name, gradient);
  write_tensors(path, tensors);
}

NamedTensors Collector::state_dict(TensorStore& store, const MatchedWeights* weights) const {
  auto gathered = gather_stored(&StoredTensor::in_state_dict, scalar_type,
                                [&](int index) { return store.tensor(index).detach(); });
  if (communicator_.rank() != 0) return {};
  NamedTensors tensors;
  for (size_t i = 0; i < loaded_.graph.tensors.size(); ++i) {
    const auto index = static_cast<int>(i);
    const StoredTensor& stored = loaded_.graph.tensors[i];
    if (!stored.in_state_dict()) continue;
    at::Tensor& tensor = gathered[index];
    if (!tensor.defined())  // no stage has it
      tensor = TensorStore(loaded_.whole(), {index}, at::kCPU, weights).tensor(index);
    for (const std::string& name : stored.names()) tensors.emplace_back(name, tensor);
  }
  return tensors;
}

}  // namespace penstock
