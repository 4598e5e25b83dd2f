#include "cli/report/profile_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/quantity.hpp"
#include "cli/report/estimate_report.hpp"
#include "cli/report/table.hpp"
#include "estimate/estimate.hpp"
#include "simulator/costs/stage_terms.hpp"
#include "simulator/noise/step_noise.hpp"

namespace penstock::cli {
namespace {

double sum_s(const MicrobatchCosts& costs, Measured ActionTimes::*action) {
  return std::accumulate(
      costs.units.begin(), costs.units.end(), 0.0,
      [&](double sum, const UnitCost& unit) { return sum + (unit.times.*action).mean_s; });
}

double pass_s(const MicrobatchCosts& costs) { return costs.pass().device_s; }

Stepped trainable(const Graph& model) {
  Stepped all;
  for (const StoredTensor& tensor : model.tensors) {
    if (!tensor.requires_grad) continue;
    ++all.tensors;
    all.bytes += tensor.bytes();
  }
  return all;
}

/// A training step on one device: every microbatch, and the optimizer.
double step_s(const Profile& profile, const MicrobatchCosts& costs, const Graph& model) {
  const double count = double(profile.job.global_batch) / double(costs.microbatch);
  return count * (costs.pass().longer_s() + costs.load_batch_s) +
         pass_s(costs) * costs.first_microbatch_excess +
         penstock::step_s(profile, trainable(model));
}

/// Names the parts of a quick profile that are less sure.
std::string quick_note(const Profile& profile) {
  if (!profile.device.details.contains("quick")) return "";
  int fewest = std::numeric_limits<int>::max();
  for (const MicrobatchCosts& costs : profile.microbatches)
    for (const UnitCost& unit : costs.units)
      fewest = std::min(fewest, unit.times.forward.repetitions);
  return fmt::format(
      "quick: of few microbatch sizes, and times of as few as {} repetition{}; least sure are "
      "spreads, single operators and small differences between plans",
      fewest, fewest == 1 ? "" : "s");
}

}  // namespace

std::string costs_note(const Profile& profile) {
  if (of_layers(profile)) return "of a table of layers; transfers are free without --cluster";
  const std::string note = estimate_note(profile);
  return note.empty() ? quick_note(profile) : note;
}

namespace {

std::string device_lines(const Profile& profile, int columns) {
  const DeviceInfo& device = profile.device;
  std::string text = labelled(
      "device", fmt::format("{}, {}", device.name, format_bytes(device.memory_bytes)), columns);
  if (const std::string note = costs_note(profile); !note.empty())
    text += labelled("costs", note, columns);
  if (!estimate_note(profile).empty()) return text;
  const auto ranks = device.details.find("ranks");
  const bool alone = ranks == device.details.end() || ranks->second == "1";
  text += labelled("measured",
                   fmt::format("with {} a rank{}", format_number(device.threads, "thread"),
                               alone ? "" : ", " + ranks->second + " ranks at the same time"),
                   columns);
  return text +
         labelled("probe",
                  fmt::format("GEMM {}, copy {}; they varied by {:.1f} % during the profile",
                              format_seconds(profile.probe.gemm_s),
                              format_seconds(profile.probe.copy_s), 100 * profile.probe.spread),
                  columns);
}

/// The relative spread of F and B.
double spread_of(const MicrobatchCosts& costs) {
  if (pass_s(costs) <= 0) return 0;
  const auto add = [](double sum, const UnitCost& unit) {
    return sum + unit.times.forward.spread_s + unit.times.backward.spread_s;
  };
  return std::accumulate(costs.units.begin(), costs.units.end(), 0.0, add) / pass_s(costs);
}

std::vector<std::string> size_cells(const MicrobatchCosts& costs) {
  int64_t held = 0;
  for (const UnitCost& unit : costs.units) held += unit.held.forward.net;
  std::vector<std::string> cells{fmt::to_string(costs.microbatch)};
  for (Measured ActionTimes::*action :
       {&ActionTimes::forward, &ActionTimes::backward, &ActionTimes::backward_input,
        &ActionTimes::backward_weight}) {
    cells.push_back(format_seconds(sum_s(costs, action)));
  }
  cells.push_back(fmt::format("{:.1f} %", 100 * spread_of(costs)));
  cells.push_back(format_bytes(held));
  return cells;
}

/// Where groups are known, below the whole model what each of their ranks runs.
std::string size_table(const Profile& profile, const Graph* model, int columns) {
  const bool grouped = !profile.groups.empty();
  std::vector<std::string> headings{"microbatch", "F", "B", "I", "W", "spread", "memory held"};
  if (grouped) headings.insert(headings.begin(), "parts");
  if (model) headings.emplace_back("step alone");
  Table table(std::move(headings));
  const auto add = [&](const MicrobatchCosts& costs, int parts) {
    std::vector<std::string> cells = size_cells(costs);
    if (grouped) cells.insert(cells.begin(), fmt::to_string(parts));
    if (model) cells.push_back(parts > 1 ? "" : format_seconds(step_s(profile, costs, *model)));
    table.row(std::move(cells));
  };
  for (const MicrobatchCosts& costs : profile.microbatches) add(costs, 1);
  for (const GroupCosts& group : profile.groups)
    for (const MicrobatchCosts& costs : group.microbatches) add(costs, group.parts);
  return "\n" + table.text(columns);
}

/// The variation of rounds, from the first size that knows it.
std::string noise_line(const Profile& profile, int columns) {
  const auto known = std::ranges::find_if(profile.microbatches, &MicrobatchCosts::knows_noise);
  if (known == profile.microbatches.end()) return "";
  const RoundParts parts = round_noise(*known);
  const std::string said = fmt::format(
      "F and B of all units, at microbatch {}, vary by {:.1f} % on all ranks at once, {:.1f} % on "
      "each by itself",
      known->microbatch, 100 * std::sqrt(variance(parts.common)),
      100 * std::sqrt(variance(parts.own)));
  return "\n" + labelled("noise", said, columns);
}

/// For devices whose hosts run ahead: which of the two limits a stage of such microbatches.
std::string host_lines(const Profile& profile, int columns) {
  std::string text;
  const auto line = [&](const std::string& said) {
    text += text.empty() ? "\n" + labelled("host", said, columns) : labelled("", said, columns);
  };
  for (const MicrobatchCosts& costs : profile.microbatches) {
    const auto [ran, issued] = costs.pass();
    if (issued <= 0) continue;
    line(fmt::format("microbatch {}: issues F and B in {}, the device runs them in {}{}",
                     costs.microbatch, format_seconds(issued), format_seconds(ran),
                     issued > ran ? ": it waits for its host" : ""));
  }
  for (const auto& [microbatch, times] : profile.replays)
    line(fmt::format("as CUDA graphs, at microbatch {}: {} and {}", microbatch,
                     format_seconds(times.forward.host_s + times.backward.host_s),
                     format_seconds(times.forward.mean_s + times.backward.mean_s)));
  return text;
}

double cost_s(const OperatorCost& op) { return op.times.forward.mean_s + op.times.backward.mean_s; }

std::string operator_table(const MicrobatchCosts& costs, int top, int columns) {
  std::vector<const OperatorCost*> order;
  for (const OperatorCost& op : costs.operators) order.push_back(&op);
  std::ranges::stable_sort(order, std::greater{},
                           [](const OperatorCost* op) { return cost_s(*op); });
  order.resize(std::min<size_t>(order.size(), std::max(top, 0)));
  if (order.empty()) return "";
  Table table({"F", "B", "share", "GFLOP/s", "<operator", "<target", "<module"});
  const double all = pass_s(costs);
  for (const OperatorCost* op : order) {
    const double forward = op->times.forward.mean_s;
    table.row({format_seconds(forward), format_seconds(op->times.backward.mean_s),
               fmt::format("{:.1f} %", all > 0 ? 100 * cost_s(*op) / all : 0),
               fmt::format("{:.1f}", forward > 0 ? op->flops / forward / 1e9 : 0), op->name,
               op->target, op->module});
  }
  return fmt::format("\nmost expensive of {} operators, at microbatch {}\n{}",
                     costs.operators.size(), costs.microbatch, table.text(columns));
}

std::string link_lines(const Profile& profile, int columns) {
  std::string text;
  for (const LinkCost& link : profile.links) {
    std::string said = fmt::format(
        "{}: {}{}", link.kind, format_seconds(link.latency_s),
        link.bandwidth > 0 ? fmt::format(" + bytes / ({})", format_bytes_per_second(link.bandwidth))
                           : " whatever the bytes");
    if (!link.samples.empty())
      said += fmt::format(", the fit is off by {:.0f} %", 100 * link.residual);
    text += (text.empty() ? "\n" : "") + labelled("link", said, columns);
  }
  if (profile.links.empty()) return text;
  const LinkCost& link = profile.links.front();
  if (link.sender_s_per_byte + link.receiver_s_per_byte <= 0) return text;
  constexpr double mebibyte = 1 << 20;
  return text + labelled("",
                         fmt::format("beside compute, 1 MiB costs the sender {}, the receiver {}",
                                     format_seconds(link.sender_s_per_byte * mebibyte),
                                     format_seconds(link.receiver_s_per_byte * mebibyte)),
                         columns);
}

}  // namespace

std::string profile_report(const Profile& profile, const Graph* model, int top, int columns) {
  std::string text = device_lines(profile, columns) + size_table(profile, model, columns) +
                     noise_line(profile, columns) + host_lines(profile, columns) +
                     size_fit_report(profile, columns);
  if (!profile.microbatches.empty()) {
    const auto per_sample = [](const MicrobatchCosts& costs) {
      return pass_s(costs) / double(costs.microbatch);
    };
    text += operator_table(*std::ranges::min_element(profile.microbatches, {}, per_sample), top,
                           columns);
  }
  return text + link_lines(profile, columns);
}

}  // namespace penstock::cli
