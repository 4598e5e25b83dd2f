#include "simulator/costs/stage_terms.hpp"

#include <algorithm>

#include "pipeline/job/parameters.hpp"

namespace penstock {

namespace {

void add_measured(WorkSeconds& sum, const Measured& measured) {
  sum.device_s += measured.mean_s;
  sum.host_s += measured.host_s;
}

}  // namespace

void OperatorSums::add(const OperatorCost& cost) {
  add_measured(forward, cost.times.forward);
  add_measured(backward, cost.times.backward);
  add_measured(backward_input, cost.times.backward_input);
  add_measured(backward_weight, cost.times.backward_weight);
}

void OperatorSums::add_loss(const MicrobatchCosts& measured) {
  add_measured(forward, measured.loss_forward);
}

double load_s(const MicrobatchCosts& measured, const Graph& model, size_t inputs, bool target) {
  return measured.load_batch_s * static_cast<double>(inputs + (target ? 1 : 0)) /
         static_cast<double>(model.inputs.size() + 1);
}

int64_t fixed_bytes(const Job& job, const StoredTensor& tensor, bool stepped) {
  return tensor.bytes() + (stepped ? training_bytes(job, tensor) : gradient_bytes(job, tensor));
}

int64_t state_part_bytes(const Job& job, const StoredTensor& tensor, int64_t parts) {
  const int64_t state = training_bytes(job, tensor) - gradient_bytes(job, tensor);
  return state == 0 ? 0 : tensor.elements() / parts * (state / tensor.elements());
}

double update_s(const Profile& profile, const Stepped& stepped) {
  return profile.optimizer_s_per_tensor * static_cast<double>(stepped.tensors) +
         profile.optimizer_s_per_byte * static_cast<double>(stepped.bytes);
}

double clear_s(const Profile& profile, int64_t parameter_bytes) {
  return profile.zero_s_per_byte * static_cast<double>(parameter_bytes);
}

double step_s(const Profile& profile, const Stepped& stepped) {
  return update_s(profile, stepped) + clear_s(profile, stepped.bytes + stepped.held_bytes);
}

double accumulate_s(const Profile& profile, int64_t parameter_bytes) {
  return profile.accumulate_s_per_byte * static_cast<double>(parameter_bytes);
}

FlowBytes flow_bytes(const Graph& model, const StageEdge& edge, int64_t microbatch) {
  FlowBytes flow{.from = edge.producer, .to = edge.consumer};
  for (const Crossing& crossing : edge.values) {
    const int64_t bytes = model.values[static_cast<size_t>(crossing.value)].bytes(microbatch);
    flow.forward_bytes += bytes;
    if (crossing.carries_gradient) flow.backward_bytes += bytes;
  }
  return flow;
}

int64_t target_bytes(const Job& job, const Graph& model, int64_t microbatch) {
  const std::optional<ValueId> output = model.first_output();
  if (job.forward_only || job.loss.kind == Loss::output || !output) return 0;
  const Value& made = model.values[static_cast<size_t>(*output)];
  if (job.loss.kind != Loss::cross_entropy) return made.bytes(microbatch);
  const int64_t classes = made.shape.empty() ? 0 : made.shape.back().at(microbatch);
  return classes > 0 ? made.elements(microbatch) / classes * size_bytes(DType::int64) : 0;
}

int64_t optimizer_transient_bytes(const OptimizerSpec& optimizer, const DeviceInfo& device,
                                  int64_t largest_bytes) {
  if (device.kind != "cpu") return 0;
  if (optimizer.kind == OptimizerSpec::Kind::adamw) return 2 * largest_bytes;  // root, and quotient
  return optimizer.weight_decay != 0 ? largest_bytes : 0;  // the gradient with decay
}

}  // namespace penstock
