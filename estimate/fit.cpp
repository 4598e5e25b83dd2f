#include "estimate/fit.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "estimate/model.hpp"
#include "estimate/work.hpp"
#include "pipeline/profile/least_deviations.hpp"

namespace penstock {

namespace {

/// Ideal seconds by class, then launches: the parts of one measured time.
using TimeRow = std::array<double, operator_classes + 1>;
constexpr size_t launches = operator_classes;
constexpr auto optimizer_class = static_cast<size_t>(OperatorClass::optimizer);

struct TimeSample {
  TimeRow row{};
  double measured_s = 0;
  bool whole = false;  // F or B, which a step consists of
};

void add_work(const DeviceSpec& device, const std::vector<Work>& work, TimeRow& row) {
  for (const Work& piece : work) {
    row[static_cast<size_t>(piece.kind)] += ideal_s(device, piece);
    row[launches] += 1;
  }
}

void add_samples(const DeviceSpec& device, const OperatorWork& work, const ActionTimes& times,
                 std::vector<TimeSample>& samples) {
  TimeSample forward, backward, input, weight;
  add_work(device, work.forward, forward.row);
  add_work(device, work.input, input.row);
  add_work(device, work.weight, weight.row);
  for (size_t k = 0; k <= launches; ++k) backward.row[k] = input.row[k] + weight.row[k];
  forward.measured_s = times.forward.mean_s, backward.measured_s = times.backward.mean_s;
  input.measured_s = times.backward_input.mean_s, weight.measured_s = times.backward_weight.mean_s;
  forward.whole = backward.whole = true;
  samples.insert(samples.end(), {forward, backward, input, weight});
}

std::vector<TimeSample> samples_of(const Profile& measured, const EstimateModel& model,
                                   const DeviceSpec& device) {
  std::vector<TimeSample> samples;
  const ValueId input = loss_input(model);
  const OperatorId loss_operator = input < 0 ? -1 : model.value(input).producer;
  for (const MicrobatchCosts& costs : measured.microbatches) {
    for (OperatorId id = 0; id < model.operators(); ++id) {
      OperatorWork work = work_of(model, model.op(id), costs.microbatch, device.kind == "cuda");
      if (id == loss_operator) {
        const auto loss = work_of_loss(model, measured.job.loss.kind, costs.microbatch).input;
        work.input.insert(work.input.end(), loss.begin(), loss.end());
      }
      add_samples(device, work, costs.operators[static_cast<size_t>(id)].times, samples);
    }
  }
  return samples;
}

void check_profile(const Profile& measured, const Graph& graph, const DeviceSpec& device) {
  if (measured.device.details.contains("source") &&
      measured.device.details.at("source") == "estimate") {
    throw InputError(measured.path, "is itself an estimate",
                     "Fit to a profile that was measured on the device.");
  }
  if (measured.device.kind != device.kind) {
    throw InputError(measured.path,
                     fmt::format("was measured on a {}, but {} describes a {}",
                                 measured.device.kind, device.path, device.kind),
                     "Give the description of the device that was measured.");
  }
  if (measured.model_sha256 != graph.sha256) {
    throw InputError(measured.path,
                     fmt::format("was measured with a model of SHA-256 {}, but {} has {}",
                                 measured.model_sha256, graph.path, graph.sha256),
                     "Profile this model again.");
  }
  if (measured.microbatches.empty())
    throw InputError(measured.path, "holds no measured microbatch size", "Profile the job again.");
  for (const MicrobatchCosts& costs : measured.microbatches) {
    if (costs.operators.size() == graph.operators.size()) continue;
    throw InputError(measured.path,
                     fmt::format("measured {} operators, but {} has {}", costs.operators.size(),
                                 graph.path, graph.operators.size()),
                     "Profile this model again.");
  }
}

/// 1 / efficiency by class, then seconds of a launch; 0 where nothing is known.
std::vector<double> solve(const std::vector<TimeSample>& samples) {
  std::vector<std::vector<double>> rows;
  std::vector<double> measured_s;
  for (const TimeSample& sample : samples) {
    rows.emplace_back(sample.row.begin(), sample.row.end());
    measured_s.push_back(sample.measured_s);
  }
  return least_absolute_deviations(rows, measured_s);
}

double estimated_s(const DeviceSpec& device, const TimeRow& row) {
  double sum_s = row[launches] * device.launch_s;
  for (size_t kind = 0; kind < operator_classes; ++kind)
    sum_s += row[kind] / device.efficiency[kind];
  return sum_s;
}

/// Residuals of the fit, and the share of each class.
void judge(const std::vector<TimeSample>& samples, EfficiencyFit& fit) {
  double deviation_s = 0;
  for (const TimeSample& sample : samples) {
    for (size_t kind = 0; kind < operator_classes; ++kind) {
      if (sample.row[kind] <= 0) continue;
      ++fit.samples[kind];
      if (sample.whole) fit.share[kind] += sample.row[kind] / fit.device.efficiency[kind];
    }
    if (!sample.whole) continue;
    const double estimate_s = estimated_s(fit.device, sample.row);
    deviation_s += std::abs(estimate_s - sample.measured_s);
    fit.measured_s += sample.measured_s;
    fit.estimated_s += estimate_s;
  }
  if (fit.measured_s <= 0) return;
  fit.residual = deviation_s / fit.measured_s;
  for (double& share : fit.share) share /= fit.measured_s;
}

}  // namespace

EfficiencyFit fit_efficiency(const Profile& measured, const Graph& graph,
                             const DeviceSpec& device) {
  check_profile(measured, graph, device);
  const EstimateModel model(graph);
  std::vector<TimeSample> samples = samples_of(measured, model, device);
  std::erase_if(samples,
                [](const TimeSample& s) { return s.row[launches] == 0 && s.measured_s == 0; });
  EfficiencyFit fit{.device = device};
  const std::vector<double> solved = solve(samples);
  for (size_t kind = 0; kind < operator_classes; ++kind) {
    const double inverse = solved[kind];
    if (inverse > 0) fit.device.efficiency[kind] = 1 / inverse;
  }
  fit.device.launch_s = solved[launches];
  judge(samples, fit);
  if (measured.optimizer_s_per_byte > 0) {
    fit.device.efficiency[optimizer_class] =
        optimizer_traffic(measured.job) / (device.bandwidth * measured.optimizer_s_per_byte);
  }
  fit.device.action_s = measured.action_overhead_s;
  if (fit.device.links.empty()) fit.device.links = measured.links;
  return fit;
}

}  // namespace penstock
