#include "simulator/costs/stage_terms.hpp"

#include <algorithm>

#include "pipeline/job/parameters.hpp"
#include "simulator/network/cluster.hpp"

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
  saved_bytes += cost.held.after_forward;
  saved_weight_bytes += cost.held.after_input;
  transient_forward_bytes = std::max(transient_forward_bytes, cost.held.transient_forward);
  transient_backward_bytes = std::max(transient_backward_bytes, cost.held.transient_backward);
}

void OperatorSums::add_loss(const MicrobatchCosts& measured) {
  add_measured(forward, measured.loss_forward);
}

bool makes_loss(const StageSlice& slice) {
  return std::ranges::find(slice.outputs, 0) != slice.outputs.end();
}

double load_s(const MicrobatchCosts& measured, const Graph& model, size_t inputs, bool target) {
  return measured.load_batch_s * static_cast<double>(inputs + (target ? 1 : 0)) /
         static_cast<double>(model.inputs.size() + 1);
}

int64_t fixed_bytes(const Job& job, const StoredTensor& tensor, bool stepped) {
  return tensor.bytes() + (stepped ? training_bytes(job, tensor) : gradient_bytes(job, tensor));
}

double step_s(const Profile& profile, int64_t stepped_bytes, int64_t held_bytes) {
  return (profile.optimizer_s_per_byte + profile.zero_s_per_byte) *
             static_cast<double>(stepped_bytes) +
         profile.zero_s_per_byte * static_cast<double>(held_bytes);
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

int64_t message_buffer_bytes(int64_t received_bytes, int64_t sent_bytes) {
  return Link{}.receive_depth * received_bytes + sent_bytes;
}

}  // namespace penstock
