#include "cli/report/estimate_report.hpp"

#include <fmt/format.h>

#include "base/quantity.hpp"
#include "cli/report/table.hpp"
#include "pipeline/profile/fit.hpp"

namespace penstock::cli {

namespace {

/// Seconds of F and B of one microbatch through all units, with its loss.
double microbatch_s(const MicrobatchCosts& costs) {
  double sum_s = costs.loss_forward.mean_s;
  for (const UnitCost& unit : costs.units)
    sum_s += unit.times.forward.mean_s + unit.times.backward.mean_s;
  return sum_s;
}

}  // namespace

std::string fit_report(const EfficiencyFit& fit, const std::string& profile, int columns) {
  std::string text = labelled("fitted to", profile) + "\n";
  Table table({"<operators", "efficiency", "measured times", "share of F and B"});
  for (size_t kind = 0; kind < operator_classes; ++kind) {
    const auto of = static_cast<OperatorClass>(kind);
    if (fit.samples[kind] == 0 && of != OperatorClass::optimizer) continue;
    table.row({std::string(name(of)), fmt::format("{:.3g}", fit.device.efficiency[kind]),
               fit.samples[kind] > 0 ? fmt::to_string(fit.samples[kind]) : "its rate",
               fit.samples[kind] > 0 ? fmt::format("{:.1f} %", 100 * fit.share[kind]) : ""});
  }
  text += table.text(columns) + "\n";
  text += labelled("launch", format_seconds(fit.device.launch_s) + " of each operator", columns);
  const double error = fit.measured_s > 0 ? 100 * (fit.estimated_s / fit.measured_s - 1) : 0;
  return text +
         labelled("residual",
                  fmt::format("{:.1f} % of the measured F and B of all operators; together {} "
                              "estimated, {} measured ({:+.1f} %)",
                              100 * fit.residual, format_seconds(fit.estimated_s),
                              format_seconds(fit.measured_s), error),
                  columns) +
         "\n";
}

std::string size_fit_report(const Profile& profile, int columns) {
  std::vector<std::pair<double, double>> samples;
  for (const MicrobatchCosts& costs : profile.microbatches)
    if (microbatch_s(costs) > 0)
      samples.emplace_back(static_cast<double>(costs.microbatch), microbatch_s(costs));
  if (samples.size() < 3) return "";
  const LineFit line = fit_line(samples);
  const std::string text =
      fmt::format("{} + {} per sample, the fit is off by {:.0f} %", format_seconds(line.offset),
                  format_seconds(line.slope), 100 * line.residual);
  return "\n" + labelled("F and B", text, columns);
}

}  // namespace penstock::cli
