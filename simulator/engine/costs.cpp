#include "simulator/engine/costs.hpp"

namespace penstock {

double Costs::duration_s(const Action& action) const {
  if (!measured_s.empty()) {
    const auto found = measured_s.find(action);
    if (found != measured_s.end()) return found->second;
  }
  const StageCosts& stage = stages[static_cast<size_t>(action.stage)];
  const bool first = action.microbatch == 0;
  switch (action.kind) {
    case Kind::forward: return stage.forward_s + (first ? stage.first_forward_s : 0);
    case Kind::backward: return stage.backward_s + (first ? stage.first_backward_s : 0);
    case Kind::backward_input: return stage.backward_input_s + (first ? stage.first_backward_s : 0);
    case Kind::backward_weight: return stage.backward_weight_s;
    case Kind::optimizer: return stage.optimizer_s + stage.publish_s;
    case Kind::overlap: return duration_s(forward_part(action)) + duration_s(backward_part(action));
    case Kind::reduce_grad:
    case Kind::send_forward:
    case Kind::recv_forward:
    case Kind::send_backward:
    case Kind::recv_backward: return 0;
  }
  return 0;
}

double Costs::host_s(const Action& action) const {
  const StageCosts& stage = stages[static_cast<size_t>(action.stage)];
  switch (action.kind) {
    case Kind::forward: return stage.forward_host_s;
    case Kind::backward: return stage.backward_host_s;
    case Kind::backward_input: return stage.backward_input_host_s;
    case Kind::backward_weight: return stage.backward_weight_host_s;
    case Kind::overlap: return host_s(forward_part(action)) + host_s(backward_part(action));
    default: return 0;
  }
}

int64_t Costs::message_bytes(const Action& action) const {
  const bool from_producer =
      action.kind == Kind::send_forward || action.kind == Kind::recv_backward;
  const int producer = from_producer ? action.stage : peer_stage(action);
  const int consumer = from_producer ? peer_stage(action) : action.stage;
  const bool forward = action.kind == Kind::send_forward || action.kind == Kind::recv_forward;
  for (const FlowBytes& flow : flows) {
    if (flow.from == producer && flow.to == consumer) {
      return forward ? flow.forward_bytes : flow.backward_bytes;
    }
  }
  return 0;
}

Costs equal_stages(int count, const StageCosts& each, const std::vector<Flow>& flows,
                   int64_t message_bytes) {
  Costs costs;
  costs.stages.assign(static_cast<size_t>(count), each);
  for (const Flow& flow : flows) {
    costs.flows.push_back({flow.from, flow.to, message_bytes, flow.gradient ? message_bytes : 0});
  }
  return costs;
}

}  // namespace penstock
