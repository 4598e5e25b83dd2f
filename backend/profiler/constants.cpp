#include "backend/profiler/constants.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "backend/operators/dtype.hpp"
#include "backend/profiler/samples.hpp"
#include "backend/profiler/timing/statistics.hpp"
#include "backend/stage/loss.hpp"
#include "backend/stage/make_stage.hpp"
#include "graph/sharding/collectives.hpp"
#include "pipeline/profile/fit.hpp"

namespace penstock::profiler {
namespace {

constexpr int kRepetitions = 3;
constexpr int kSteps = 9;  // of the optimizer

/// y = x * w, whose output is its loss: the smallest model with a backward.
Graph smallest_model() {
  Graph graph;
  const std::vector<Expression> shape{Expression::batch(), Expression(1)};
  graph.values = {{.name = "x", .kind = Value::Kind::user_input, .shape = shape},
                  {.name = "w", .kind = Value::Kind::tensor, .shape = {Expression(1)}, .tensor = 0},
                  {.name = "y", .shape = shape, .producer = 0}};
  graph.tensors = {{.name = "w", .requires_grad = true, .sizes = {1}, .strides = {1}}};
  graph.operators = {{.name = "y",
                      .target = "aten::mul",
                      .overload = "Tensor",
                      .arguments = {{"self", TensorRef{0}}, {"other", TensorRef{1}}},
                      .outputs = {2}}};
  graph.inputs = {0};
  graph.outputs = {{"output", TensorRef{2}}};
  graph.dynamic_batch = true;
  return graph;
}

/// Seconds of storing a gradient for each parameter (`clear`), or of adding one to it; each has
/// just been written, as in a backward. On a device that runs behind its host all are timed at
/// once: one alone would be launch-bound.
double gradients_s(Subject& subject, bool clear) {
  if (clear) subject.store.clear_gradients();
  const std::set<int> indices = subject.parameters();
  std::vector<std::vector<int>> groups;
  for (const int index : indices) {
    if (groups.empty() || !subject.device.runs_behind()) groups.emplace_back();
    groups.back().push_back(index);
  }
  double seconds = 0;
  for (const std::vector<int>& group : groups) {
    std::vector<at::Tensor> gradients;
    gradients.reserve(group.size());
    for (const int index : group) gradients.push_back(at::zeros_like(subject.store.tensor(index)));
    seconds += seconds_on(subject.device, [&] {
      for (size_t i = 0; i < group.size(); ++i)
        subject.store.accumulate(group[i], std::move(gradients[i]));
    });
  }
  return seconds;
}

double per_byte(const Subject& subject, double seconds) {
  const auto bytes = static_cast<double>(subject.parameter_bytes());
  return bytes > 0 ? std::max(0.0, seconds) / bytes : 0;
}

/// The line through single tensors, which have just been stepped, so that it adds up to `all_s`.
StepRates rates_of_all(const std::vector<std::pair<double, double>>& tensors, double bytes,
                       double all_s) {
  const bool sizes_differ = std::ranges::any_of(
      tensors, [&](const auto& sample) { return sample.first != tensors.front().first; });
  if (!sizes_differ) return {.per_byte_s = bytes > 0 ? all_s / bytes : 0};
  const LineFit line = fit_line(tensors);
  const double scale =
      all_s / (line.offset * static_cast<double>(tensors.size()) + line.slope * bytes);
  return {.per_tensor_s = scale * line.offset, .per_byte_s = scale * line.slope};
}

}  // namespace

double accumulate_s_per_byte(Subject& subject) {
  double stored = 0, added = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    stored += gradients_s(subject, true);
    added += gradients_s(subject, false);
  }
  return per_byte(subject, (added - stored) / kRepetitions);
}

StepRates step_rates(Subject& subject) {
  subject.step_optimizer();  // allocates its state
  std::vector<double> seconds;
  std::map<int, std::vector<double>> by_tensor;
  for (int i = 0; i < kSteps; ++i) {
    seconds.push_back(seconds_on(subject.device, [&] { subject.step_optimizer(); }));
    if (subject.device.runs_behind()) continue;  // it steps all tensors at once
    for (const int index : subject.parameters()) {
      by_tensor[index].push_back(
          seconds_on(subject.device, [&] { subject.optimizer.step(subject.store, {index}); }));
    }
  }
  std::vector<std::pair<double, double>> samples;  // bytes, seconds
  for (const auto& [index, own] : by_tensor) {
    samples.emplace_back(static_cast<double>(subject.store.tensor(index).nbytes()),
                         summarize(own).median_s);
  }
  return rates_of_all(samples, static_cast<double>(subject.parameter_bytes()),
                      summarize(seconds).median_s);
}

double zero_s_per_byte(Subject& subject) {
  return per_byte(subject, seconds_on(subject.device, [&] { subject.store.clear_gradients(); }));
}

double action_overhead_s(ComputeDevice& device) {
  const Graph graph = smallest_model();
  const Analysis analysis = analyse(graph);
  TensorStore store({{0, at::ones({1}, at::device(device.where()))}}, device.where());
  const Slicing slicing = slice(graph, analysis, {0}, 1);
  const auto stage = make_stage(graph, analysis, slicing, 0, store, Loss::output);
  const Values inputs{{0, at::ones({1, 1}, at::device(device.where()))}};
  Stopwatch watch(device);
  constexpr int kTimes = 50;
  std::vector<double> seconds;
  seconds.reserve(kTimes);
  for (int i = 0; i < kTimes; ++i) {
    const Seconds both = timed(watch, false, [&] {
      stage->forward(0, inputs, std::nullopt, {});
      stage->backward(0, {});
    });
    seconds.push_back(device.runs_behind() ? both.host : both.device);
  }
  return summarize(seconds).median_s / 2;
}

Measured loss_forward(const Subject& subject, int64_t microbatch, const Batch& batch) {
  const std::optional<ValueId> output = subject.graph.first_output();
  if (!output) return {};
  const Value& value = subject.graph.values[*output];
  std::vector<int64_t> shape;
  for (const Expression& size : value.shape) shape.push_back(size.at(microbatch));
  const auto options = at::TensorOptions(scalar_type(value.dtype)).device(subject.device.where());
  const at::Tensor prediction =  // the cast that `precision: bf16` adds is left out
      at::zeros(shape, options).set_requires_grad(is_floating(value.dtype));
  const auto classes = sharding::split_classes(subject.graph);
  ActionSamples samples;
  Stopwatch watch(subject.device);
  for (int i = 0; i < kRepetitions; ++i) {
    for (const bool traced : {false, true}) {
      if (traced && subject.device.trace() == nullptr) continue;
      const Seconds seconds = timed(watch, traced, [&] {
        mean_loss(subject.job.loss, prediction, batch.target.value_or(at::Tensor()), classes);
      });
      samples.add(seconds, watch.recorded(), traced);
    }
  }
  return samples.measured();
}

}  // namespace penstock::profiler
