#include "tests/backend/executor/run.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

#include "pipeline/job/parameters.hpp"

namespace penstock::test {

Plan plan_of(const std::string& model, const std::string& data,
             const std::vector<std::string>& begins, int64_t microbatches, int64_t microbatch,
             const std::string& schedule, const std::vector<int>& ranks) {
  Plan plan;
  plan.path = "plan.yaml";
  plan.job.model = model;
  plan.job.data = {data};
  plan.job.optimizer.learning_rate = 0.05;
  plan.job.optimizer.momentum = 0.5;
  plan.job.global_batch = microbatches * microbatch;
  plan.job.seed = 7;
  plan.schedule = schedule;
  plan.microbatches = microbatches;
  plan.microbatch = microbatch;
  for (size_t i = 0; i < begins.size(); ++i) {
    StagePlan stage;
    stage.rank = ranks.empty() ? static_cast<int>(i) : ranks[i];
    stage.begin = begins[i];
    plan.stages.push_back(stage);
  }
  return plan;
}

namespace {

constexpr int free_tag = 1 << 20;

/// The whole of a tensor that is held in parts, at part 0; undefined at the others, which call it
/// in the same order.
at::Tensor whole(const Executor& executor, int index, const at::Tensor& own) {
  const sharding::Layout layout = executor.layout(index);
  return layout.is_split() ? collected(own, layout, executor.group(), free_tag) : own.clone();
}

Tensors whole_gradients(const Graph& graph, Executor& executor) {
  Tensors gradients;
  for (const int index : executor.store().indices()) {
    if (!executor.updates(index)) continue;  // its owner has the whole of it
    const at::Tensor gradient = executor.store().gradient(index);
    if (!gradient.defined()) continue;
    const at::Tensor found = whole(executor, index, gradient);
    if (found.defined()) gradients.emplace(graph.tensors[index].name, found);
  }
  return gradients;
}

Tensors whole_parameters(const Graph& graph, Executor& executor) {
  Tensors parameters;
  for (const int index : executor.store().indices()) {
    const StoredTensor& stored = graph.tensors[index];
    if (!stored.requires_grad) continue;
    const at::Tensor found = whole(executor, index, executor.store().tensor(index));
    if (found.defined()) parameters.emplace(stored.name, found);
  }
  return parameters;
}

std::set<std::string> stepped(const Graph& graph, Executor& executor) {
  std::set<std::string> names;
  for (const auto& [index, state] : executor.optimizer().states())
    if (graph.tensors[index].requires_grad) names.insert(graph.tensors[index].name);
  return names;
}

/// Keeps the buffers of the stages that the rank has.
void keep_buffers(const Graph& graph, Executor& executor, Tensors& buffers) {
  const auto held = executor.store().indices();
  for (const BufferUpdate& update : graph.updates) {
    if (std::ranges::find(held, update.tensor) == held.end()) continue;
    buffers[graph.tensors[update.tensor].name] = executor.store().tensor(update.tensor).clone();
  }
}

}  // namespace

RunResult run_plan(const Plan& trained, int64_t steps, bool forward_only,
                   Communicators (*make)(int),
                   const std::function<std::unique_ptr<ComputeDevice>()>& device,
                   CudaGraphs graphs) {
  const Plan plan = forward_only ? for_inference(trained) : trained;
  const PlannedModel planned = planned_model(plan, read_model(plan.job));
  const Graph& graph = planned.graph;
  const Analysis analysis = analyse(graph);
  const Slicing slicing = slice(plan, graph, analysis);
  const Program program = delay_receives(lowered_program(plan, slicing));
  const Data data(plan.job, graph, !forward_only);
  const int size = plan.all_ranks();
  RunResult result;
  result.copies.resize(size);
  result.stepped.resize(size);
  result.buffers.resize(plan.data_parallel);
  std::mutex mutex;
  run_ranks(make(size), [&](Communicator& communicator) {
    const auto own = device ? device() : nullptr;
    const Model model{.plan = plan,
                      .graph = graph,
                      .analysis = analysis,
                      .slicing = slicing,
                      .program = program,
                      .group = planned.group ? &*planned.group : nullptr};
    Executor executor(model, data, communicator, 2, own ? *own : cpu_device());
    if (own) {
      const Replaying replaying = executor.warm_up(0, graphs);
      const std::scoped_lock lock(mutex);
      result.replaying[communicator.rank()] = replaying;
    }
    std::vector<double> losses;
    for (int64_t step = 0; step < steps; ++step) {
      const StepResult done = executor.run_step(step);
      losses.push_back(done.loss);
      executor.gather_gradients();
      Tensors gradients;
      if (step == 0 || step + 1 == steps) gradients = whole_gradients(graph, executor);
      const std::scoped_lock lock(mutex);
      if (step == 0) result.first_gradients.insert(gradients.begin(), gradients.end());
      if (step + 1 == steps) result.gradients.insert(gradients.begin(), gradients.end());
      for (const auto& [index, tensor] : done.outputs) {
        result.outputs[graph.outputs[index].name] = tensor;
      }
      if (communicator.rank() != 0 || step + 1 < steps) continue;
      for (const TimelineEvent& event : done.timeline) {
        result.actions.push_back(to_string(event.action));
      }
    }
    const Tensors parameters = whole_parameters(graph, executor);
    const std::scoped_lock lock(mutex);
    result.copies[communicator.rank()] = parameters;
    result.parameters.insert(parameters.begin(), parameters.end());
    result.stepped[communicator.rank()] = stepped(graph, executor);
    keep_buffers(graph, executor, result.buffers[plan.place_of(communicator.rank()).replica]);
    if (communicator.rank() == 0) result.losses = losses;
  });
  return result;
}

double difference(const Tensors& a, const Tensors& b) {
  double all = 0;
  for (const auto& [name, tensor] : b)
    all += std::pow(tensor.to(at::kDouble).norm().item<double>(), 2);
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (const auto& [name, tensor] : b) {
    const auto found = a.find(name);
    if (found == a.end()) return INFINITY;
    const at::Tensor expected = tensor.to(at::kDouble);
    const double distance = (found->second.to(at::kDouble) - expected).norm().item<double>();
    const double scale = std::max(expected.norm().item<double>(), 1e-5 * std::sqrt(all));
    if (distance > 0) largest = std::max(largest, distance / scale);
  }
  return largest;
}

}  // namespace penstock::test
