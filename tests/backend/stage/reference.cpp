// The reference of driver.hpp: one graph, plain parameters, torch.autograd.grad.
#include <torch/csrc/autograd/autograd.h>

#include "backend/stage/loss.hpp"
#include "graph/operators/facts.hpp"
#include "tests/backend/stage/driver.hpp"

namespace penstock::test {
namespace {

class Reference {
 public:
  Reference(const Graph& graph, const std::map<int, at::Tensor>& tensors)
      : graph_(graph), tensors_(on_test_device(clones(tensors))) {
    for (const Operator& op : graph.operators) prepared_.emplace_back(graph, op, test_device());
    for (auto& [index, tensor] : tensors_) {
      if (!graph.tensors[static_cast<size_t>(index)].requires_grad) continue;
      tensor.requires_grad_();
      trainable_.push_back(index);
    }
  }

  void microbatch(const Batch& batch, size_t m, Loss kind, StepOutcome& outcome) {
    ValueTable values(graph_.values.size());
    for (size_t v = 0; v < values.size(); ++v) {
      if (graph_.values[v].kind == Value::Kind::tensor) values[v] = stored(graph_.values[v].tensor);
    }
    for (const auto& [value, tensor] : batch.inputs[m]) {
      values[static_cast<size_t>(value)] = on_test_device(tensor.clone());
    }
    run(values, batch.size, static_cast<int64_t>(m));
    const auto first = std::get<TensorRef>(graph_.outputs[0].value).value;
    const at::Tensor loss =
        mean_loss(kind, values[static_cast<size_t>(first)], on_test_device(batch.targets[m]));
    outcome.losses.push_back(loss.item().toDouble());
    add_gradients(loss / static_cast<double>(batch.inputs.size()), outcome);
    const at::NoGradGuard no_grad;
    for (const BufferUpdate& update : graph_.updates) {
      tensors_.at(update.tensor).copy_(values[static_cast<size_t>(update.value)]);
    }
  }

  void note_buffers(StepOutcome& outcome) const {
    for (const auto& [index, tensor] : tensors_) {
      const StoredTensor& stored = graph_.tensors[static_cast<size_t>(index)];
      if (stored.kind == StoredTensor::Kind::buffer) outcome.buffers[index] = tensor;
    }
  }

 private:
  at::Tensor stored(int index) const {
    const at::Tensor& tensor = tensors_.at(index);
    return tensor.requires_grad() ? tensor : tensor.clone();
  }

  void run(ValueTable& values, int64_t batch, int64_t microbatch) {
    for (size_t k = 0; k < prepared_.size(); ++k) {
      const auto id = static_cast<OperatorId>(k);
      const RandomKey key{.seed = 7, .step = 3, .microbatch = microbatch};
      const SeededGenerator generator(test_device(), operator_seed(key, id));
      prepared_[k].run(values, batch);
    }
  }

  void add_gradients(const at::Tensor& loss, StepOutcome& outcome) {
    std::vector<at::Tensor> parameters;
    for (const int index : trainable_) parameters.push_back(tensors_.at(index));
    const auto gradients = torch::autograd::grad({loss}, parameters, {}, std::nullopt, false,
                                                 /*allow_unused=*/true);
    for (size_t k = 0; k < trainable_.size(); ++k) {
      if (!gradients[k].defined()) continue;
      at::Tensor& sum = outcome.gradients[trainable_[k]];
      sum = sum.defined() ? sum + gradients[k].to_dense() : gradients[k].to_dense().clone();
    }
  }

  const Graph& graph_;
  std::map<int, at::Tensor> tensors_;
  std::vector<PreparedOperator> prepared_;
  std::vector<int> trainable_;
};

}  // namespace

StepOutcome reference_step(const Graph& graph, const std::map<int, at::Tensor>& tensors,
                           const Batch& batch, Loss loss) {
  Reference reference(graph, tensors);
  StepOutcome outcome;
  for (size_t m = 0; m < batch.inputs.size(); ++m) {
    reference.microbatch(batch, m, loss, outcome);
  }
  reference.note_buffers(outcome);
  return outcome;
}

}  // namespace penstock::test
