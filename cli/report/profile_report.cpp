#include "cli/report/profile_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/quantity.hpp"
#include "cli/report/estimate_report.hpp"
#include "estimate/estimate.hpp"

namespace penstock::cli {
namespace {

using Out = std::back_insert_iterator<std::string>;

double sum_s(const MicrobatchCosts& costs, Measured ActionTimes::*action) {
  return std::accumulate(
      costs.units.begin(), costs.units.end(), 0.0,
      [&](double sum, const UnitCost& unit) { return sum + (unit.times.*action).mean_s; });
}

double pass_s(const MicrobatchCosts& costs) { return costs.pass().device_s; }

/// A training step on one device: every microbatch, and the optimizer.
double step_s(const Profile& profile, const MicrobatchCosts& costs, double parameter_bytes) {
  const double count = double(profile.job.global_batch) / double(costs.microbatch);
  return count * (costs.pass().longer_s() + costs.load_batch_s) +
         pass_s(costs) * costs.first_microbatch_excess +
         profile.optimizer_s_per_byte * parameter_bytes;
}

/// What is less sure in a quick profile.
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
  const std::string note = estimate_note(profile);
  return note.empty() ? quick_note(profile) : note;
}

namespace {

void print_device(Out out, const Profile& profile) {
  const DeviceInfo& device = profile.device;
  fmt::format_to(out, "device      {}, {}\n", device.name,
                 format_bytes(double(device.memory_bytes)));
  if (const std::string note = costs_note(profile); !note.empty())
    fmt::format_to(out, "costs       {}\n", note);
  if (!estimate_note(profile).empty()) return;
  const auto ranks = device.details.find("ranks");
  fmt::format_to(out, "measured    with {} thread{} a rank{}\n", device.threads,
                 device.threads == 1 ? "" : "s",
                 ranks == device.details.end() || ranks->second == "1"
                     ? ""
                     : fmt::format(", {} ranks at the same time", ranks->second));
  fmt::format_to(out, "probe       GEMM {}, copy {}; they varied by {:.1f} % during the profile\n",
                 format_seconds(profile.probe.gemm_s), format_seconds(profile.probe.copy_s),
                 100 * profile.probe.spread);
}

void print_sizes(Out out, const Profile& profile, double parameter_bytes) {
  fmt::format_to(out, "\n{:>10} {:>10} {:>10} {:>10} {:>10} {:>7} {:>12} {:>11}\n", "microbatch",
                 "F", "B", "I", "W", "spread", "memory held", "step alone");
  for (const MicrobatchCosts& costs : profile.microbatches) {
    const double spread = sum_s(costs, &ActionTimes::forward) > 0
                              ? std::accumulate(costs.units.begin(), costs.units.end(), 0.0,
                                                [](double sum, const UnitCost& unit) {
                                                  return sum + unit.times.forward.spread_s +
                                                         unit.times.backward.spread_s;
                                                }) /
                                    pass_s(costs)
                              : 0;
    int64_t held = 0;
    for (const UnitCost& unit : costs.units) held += unit.held.after_forward;
    fmt::format_to(out, "{:>10} {:>10} {:>10} {:>10} {:>10} {:>5.1f} % {:>12} {:>11}\n",
                   costs.microbatch, format_seconds(sum_s(costs, &ActionTimes::forward)),
                   format_seconds(sum_s(costs, &ActionTimes::backward)),
                   format_seconds(sum_s(costs, &ActionTimes::backward_input)),
                   format_seconds(sum_s(costs, &ActionTimes::backward_weight)), 100 * spread,
                   format_bytes(double(held)),
                   format_seconds(step_s(profile, costs, parameter_bytes)));
  }
}

/// For devices whose hosts run ahead: which of the two limits a stage of such microbatches.
void print_hosts(Out out, const Profile& profile) {
  for (const MicrobatchCosts& costs : profile.microbatches) {
    const auto [ran, issued] = costs.pass();
    if (issued <= 0) continue;
    fmt::format_to(
        out, "{}microbatch {}: the host issues F and B in {}, the device runs them in {}{}\n",
        &costs == &profile.microbatches.front() ? "\n" : "", costs.microbatch,
        format_seconds(issued), format_seconds(ran), issued > ran ? ": it waits for its host" : "");
  }
  if (!profile.replays) return;
  const ActionTimes& times = profile.replays->times;
  fmt::format_to(out, "{:>12}as CUDA graphs, at microbatch {}: {} and {}\n", "",
                 profile.replays->microbatch,
                 format_seconds(times.forward.host_s + times.backward.host_s),
                 format_seconds(times.forward.mean_s + times.backward.mean_s));
}

double cost_s(const OperatorCost& op) { return op.times.forward.mean_s + op.times.backward.mean_s; }

void print_operators(Out out, const MicrobatchCosts& costs, int top) {
  std::vector<const OperatorCost*> order;
  for (const OperatorCost& op : costs.operators) order.push_back(&op);
  std::ranges::stable_sort(order, std::greater{},
                           [](const OperatorCost* op) { return cost_s(*op); });
  order.resize(std::min<size_t>(order.size(), std::max(top, 0)));
  if (order.empty()) return;
  fmt::format_to(
      out, "\nmost expensive of {} operators, at microbatch {}\n{:>10} {:>10} {:>7} {:>8}  {}\n",
      costs.operators.size(), costs.microbatch, "F", "B", "share", "GFLOP/s", "operator");
  const double all = pass_s(costs);
  for (const OperatorCost* op : order) {
    const double forward = op->times.forward.mean_s;
    fmt::format_to(out, "{:>10} {:>10} {:>5.1f} % {:>8.1f}  {}  {}{}\n", format_seconds(forward),
                   format_seconds(op->times.backward.mean_s), all > 0 ? 100 * cost_s(*op) / all : 0,
                   forward > 0 ? op->flops / forward / 1e9 : 0, op->name, op->target,
                   op->module.empty() ? "" : "  in " + op->module);
  }
}

void print_links(Out out, const Profile& profile) {
  for (const LinkCost& link : profile.links) {
    fmt::format_to(out, "\nlink {:<10} {}{}", link.kind, format_seconds(link.latency_s),
                   link.bandwidth > 0
                       ? fmt::format(" + bytes / ({})", format_bytes_per_second(link.bandwidth))
                       : " whatever the bytes");
    if (!link.samples.empty())
      fmt::format_to(out, ", the fit is off by {:.0f} %", 100 * link.residual);
  }
  if (profile.links.empty()) return;
  fmt::format_to(out, "\n");
  if (profile.links[0].sender_s_per_byte + profile.links[0].receiver_s_per_byte <= 0) return;
  constexpr double mebibyte = 1 << 20;
  fmt::format_to(out, "     beside compute, 1 MiB costs the sender {}, the receiver {}\n",
                 format_seconds(profile.links[0].sender_s_per_byte * mebibyte),
                 format_seconds(profile.links[0].receiver_s_per_byte * mebibyte));
}

}  // namespace

std::string profile_report(const Profile& profile, int64_t parameter_bytes, int top) {
  std::string text;
  const Out out(text);
  print_device(out, profile);
  print_sizes(out, profile, double(parameter_bytes));
  print_hosts(out, profile);
  text += size_fit_report(profile);
  if (!profile.microbatches.empty()) {
    const auto per_sample = [](const MicrobatchCosts& costs) {
      return pass_s(costs) / double(costs.microbatch);
    };
    print_operators(out, *std::ranges::min_element(profile.microbatches, {}, per_sample), top);
  }
  print_links(out, profile);
  return text;
}

}  // namespace penstock::cli
