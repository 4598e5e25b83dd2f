#include "tests/simulator/two_layers.hpp"

namespace penstock::two_layers {

namespace {

Value value(const char* name, Value::Kind kind, std::vector<Expression> shape) {
  return {.name = name, .kind = kind, .shape = std::move(shape)};
}

StoredTensor parameter(const char* name, std::vector<int64_t> sizes) {
  return {.name = name, .requires_grad = true, .sizes = std::move(sizes)};
}

OperatorCost operator_cost(double forward_s, HeldBytes held) {
  OperatorCost cost;
  cost.times.forward.mean_s = forward_s;
  cost.times.backward.mean_s = 2 * forward_s;
  cost.times.backward_input.mean_s = 1.25 * forward_s;
  cost.times.backward_weight.mean_s = forward_s;
  cost.held = held;
  cost.values.keeps = {0};
  return cost;
}

}  // namespace

Graph model() {
  Graph graph;
  graph.sha256 = "abc";
  graph.path = "two.pt2";
  graph.values = {value("x", Value::Kind::user_input, {Expression::batch(), 4}),
                  value("w0", Value::Kind::tensor, {4, 6}),
                  value("w1", Value::Kind::tensor, {6, 2}),
                  value("y", Value::Kind::intermediate, {Expression::batch(), 6}),
                  value("z", Value::Kind::intermediate, {Expression::batch(), 2})};
  graph.values[1].tensor = 0;
  graph.values[2].tensor = 1;
  graph.values[3].producer = 0;
  graph.values[4].producer = 1;
  graph.inputs = {0};
  graph.tensors = {parameter("w0", {4, 6}), parameter("w1", {6, 2})};
  graph.operators.resize(2);
  graph.operators[0] = {.name = "y",
                        .target = "aten::linear",
                        .arguments = {{"input", TensorRef{0}}, {"weight", TensorRef{1}}},
                        .outputs = {3}};
  graph.operators[1] = {.name = "z",
                        .target = "aten::linear",
                        .arguments = {{"input", TensorRef{3}}, {"weight", TensorRef{2}}},
                        .outputs = {4}};
  graph.outputs = {{"output", TensorRef{4}}};
  return graph;
}

Slicing stages() {
  Slicing slicing;
  slicing.stage_of_operator = {0, 1};
  slicing.stages.resize(2);
  slicing.stages[0] = {.operators = {0}, .user_inputs = {0}, .tensors = {0}};
  slicing.stages[1] = {.operators = {1}, .tensors = {1}, .outputs = {0}};
  slicing.edges = {{0, 1, {{3, true}}}};
  return slicing;
}

Profile profile() {
  MicrobatchCosts size;
  size.microbatch = 8;
  // y takes 192 bytes, z 64. Beside them the operators keep 1000 and 2000 bytes, and their inputs.
  size.operators = {operator_cost(16, {.forward = {1000 + 192, 1000 + 192 + 10},
                                       .backward = {-1000 - 192, 20},
                                       .backward_input = {100, 120},
                                       .backward_weight = {-1100 - 192, 15}}),
                    operator_cost(32, {.forward = {2000, 2000 + 64 + 30},
                                       .backward = {-2000, 240},
                                       .backward_input = {100, 340},
                                       .backward_weight = {-2100, 35}})};
  size.loss_forward.mean_s = 4;
  size.first_microbatch_excess = 0.5;
  size.load_batch_s = 1;
  Profile profile;
  profile.path = "profile.json";
  profile.model_sha256 = "abc";
  profile.microbatches = {size};
  profile.accumulate_s_per_byte = 0.0625;
  profile.optimizer_s_per_byte = 0.125;
  profile.optimizer_s_per_tensor = 2;
  profile.zero_s_per_byte = 0.25;
  profile.action_overhead_s = 2;
  profile.links = {{.kind = "gloo",
                    .latency_s = 1e-4,
                    .bandwidth = 1e9,
                    .sender_s_per_byte = 1e-10,
                    .receiver_s_per_byte = 2e-10}};
  return profile;
}

Plan plan() {
  Plan plan;
  plan.path = "plan.yaml";
  plan.job.optimizer.kind = OptimizerSpec::Kind::adamw;
  plan.microbatch = 8;
  plan.microbatches = 2;
  plan.stages = {{.rank = 0}, {.rank = 1}};
  return plan;
}

Costs costs(const Plan& of, const Slicing& slicing) {
  return plan_costs(of, model(), slicing, profile());
}

}  // namespace penstock::two_layers
