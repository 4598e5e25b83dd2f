#include "cli/report/execute_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity.hpp"
#include "cli/report/simulate_report.hpp"
#include "cli/report/table.hpp"
#include "launch/execute_task.hpp"

namespace penstock::cli {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GraphsUsed, on, why_not, without_s, with_s)

GraphsUsed parse_graphs_used(const nlohmann::json& json) { return json.get<GraphsUsed>(); }

namespace {

std::vector<double> sorted_after_warm_up(const std::vector<double>& step_s) {
  const size_t skipped = std::min<size_t>(kWarmUpSteps, step_s.size() - 1);
  std::vector<double> times(step_s.begin() + static_cast<std::ptrdiff_t>(skipped), step_s.end());
  std::ranges::sort(times);
  return times;
}

}  // namespace

double ExecuteResult::measured_step_s() const {
  const std::vector<double> times = sorted_after_warm_up(step_s);
  return times[times.size() / 2];  // the step whose timeline and compute are told
}

double ExecuteResult::spread_s() const {
  const std::vector<double> times = sorted_after_warm_up(step_s);
  return times[times.size() * 3 / 4] - times[times.size() / 4];
}

nlohmann::json report_json(const ExecuteReport& report) {
  const auto& [samples, result, predicted, at_pace, why_not] = report;
  nlohmann::json json{{"losses", result.losses},
                      {"step_s", result.step_s},
                      {"measured_step_s", result.measured_step_s()},
                      {"spread_s", result.spread_s()},
                      {"peak_memory_bytes", result.peak_memory_bytes},
                      {"ranks", result.peak_memory_bytes.size()},
                      {"steps", result.step_s.size()},
                      {"compute_s", result.compute_s},
                      {"predicted_step_s", nullptr},
                      {"predicted_at_pace_step_s", nullptr},
                      {"predicted_compute_s", nullptr},
                      {"predicted_peak_memory_bytes", nullptr}};
  if (samples > 0) json["samples_per_s"] = static_cast<double>(samples) / result.measured_step_s();
  if (!result.losses.empty()) json["microbatch_losses"] = result.microbatch_losses;
  if (!result.gradient_norms.empty()) json["gradient_norms"] = result.gradient_norms;
  for (const auto& [step, loss] : result.validations) {
    const nlohmann::json value = std::isfinite(loss) ? nlohmann::json(loss) : nullptr;
    json["validation"].push_back({{"step", step}, {"loss", value}});
  }
  if (!result.cuda_graphs.empty()) {
    json["cuda_graphs"] = result.cuda_graphs;
    json["peak_reserved_bytes"] = result.peak_reserved_bytes;
  }
  if (!predicted) return json;
  json["predicted_step_s"] = predicted->step_s;
  json["predicted_compute_s"] = predicted->compute_s;
  if (at_pace) json["predicted_at_pace_step_s"] = at_pace->step_s;
  if (predicted->samples) json["predicted_samples"] = to_json(*predicted->samples);
  if (!predicted->peak_memory_bytes.empty()) {
    json["predicted_peak_memory_bytes"] = predicted->peak_memory_bytes;
  }
  return json;
}

namespace {

std::string describe(const GraphsUsed& graphs) {
  std::string text = graphs.on ? "CUDA graphs" : "no CUDA graphs: " + graphs.why_not;
  if (graphs.with_s > 0) {
    text += fmt::format(" (a step's compute {} with, {} without)", format_seconds(graphs.with_s),
                        format_seconds(graphs.without_s));
  }
  return text;
}

/// Fewer steps than warm one up leave the last alone.
std::string how_measured(const ExecuteResult& result) {
  const auto steps = static_cast<int64_t>(result.step_s.size());
  if (steps <= kWarmUpSteps) {
    return fmt::format("the last step, warming up; {} and more give a median", kWarmUpSteps + 2);
  }
  return fmt::format("median after {} steps, spread {}", kWarmUpSteps,
                     format_seconds(result.spread_s()));
}

/// The last evaluation, and the lowest loss where that was another's.
std::string describe(const std::vector<Validated>& validations) {
  if (validations.empty()) return "";
  const Validated& last = validations.back();
  const Validated* lowest = &last;
  for (const Validated& one : validations)
    if (one.loss < lowest->loss || (std::isnan(lowest->loss) && !std::isnan(one.loss)))
      lowest = &one;
  std::string text = fmt::format("validation: loss {:.6g} after step {}", last.loss, last.step);
  if (lowest != &last)
    text += fmt::format(", lowest {:.6g} after step {}", lowest->loss, lowest->step);
  return text + "\n";
}

}  // namespace

std::string report_text(const ExecuteReport& report, int columns) {
  const auto& [samples, result, predicted, at_pace, why_not_predicted] = report;
  const double measured = result.measured_step_s();
  std::string text = describe(result.validations);
  text +=
      fmt::format("step time: measured {} ({})\n", format_seconds(measured), how_measured(result));
  if (predicted) {
    const auto beside_measured = [&](double step_s) {
      return fmt::format("{} ({:+.1f} %)", format_seconds(step_s), 100 * (step_s / measured - 1));
    };
    text += "           predicted " + beside_measured(predicted->step_s) + "\n";
    if (const auto& drawn = predicted->samples)
      text += fmt::format(
          "           with the profile's noise median {}, 5 to 95 % of steps {} to {}\n",
          beside_measured(drawn->median_s), format_seconds(drawn->p5_s),
          format_seconds(drawn->p95_s));
    if (at_pace)
      text += fmt::format("           at the pace of this run, which computed {:.1f} % {}, {}\n",
                          100 * std::abs(at_pace->slowdown - 1),
                          at_pace->slowdown < 1 ? "faster" : "slower",
                          beside_measured(at_pace->step_s));
  } else {
    text += labelled("", "no prediction: " + why_not_predicted, columns);
  }
  if (samples > 0) text += fmt::format("inference: {}\n", describe_inference(samples, measured));
  for (size_t rank = 0; rank < result.peak_memory_bytes.size(); ++rank) {
    const auto peak = static_cast<double>(result.peak_memory_bytes[rank]);
    text += fmt::format("rank {}: peak memory measured {}", rank, format_bytes(peak));
    if (predicted && !predicted->peak_memory_bytes.empty()) {  // of one replica
      const auto& peaks = predicted->peak_memory_bytes;
      const auto said = static_cast<double>(peaks[rank % peaks.size()]);
      text +=
          fmt::format(", predicted {} ({:+.1f} %)", format_bytes(said), 100 * (said / peak - 1));
    }
    if (!result.peak_reserved_bytes.empty())
      text += fmt::format(", reserved by the allocator {}",
                          format_bytes(static_cast<double>(result.peak_reserved_bytes[rank])));
    text += "\n";
  }
  for (size_t rank = 0; rank < result.cuda_graphs.size(); ++rank) {
    const GraphsUsed& graphs = result.cuda_graphs[rank];
    if (graphs.on || !graphs.why_not.empty())
      text += labelled(fmt::format("rank {}:", rank), describe(graphs), columns);
  }
  return text;
}

}  // namespace penstock::cli
