#include "cli/report/sweep_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "cli/report/ending.hpp"

namespace penstock::cli {

namespace {

/// A message in one line.
std::string one_line(std::string text) {
  for (size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos;) text.replace(at, 3, ". ");
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string mark(const Sweep& sweep, const SweepRow& row) {
  std::string text;
  if (&row == sweep.fastest()) text += "*";
  if (&row == sweep.cheapest()) text += "$";
  return text.empty() ? "" : text + " ";
}

std::string samples_rate(double samples_per_s) {
  return samples_per_s < 9999.5 ? fmt::format("{:#.4g}", samples_per_s)
                                : fmt::format("{:.0f}", samples_per_s);
}

std::string memory_cell(const SweptPlan& plan) {
  std::string text = format_bytes(plan.peak_memory_bytes);
  if (plan.memory_bytes == 0) return text;
  return fmt::format(
      "{} ({:.0f} %)", text,
      100 * static_cast<double>(plan.peak_memory_bytes) / static_cast<double>(plan.memory_bytes));
}

bool shards_any(const Sweep& sweep) {
  return std::ranges::any_of(sweep.rows, [](const SweepRow& row) {
    return row.plan && row.plan->optimizer_state == OptimizerState::sharded;
  });
}

std::string shape(const SweptPlan& plan) {
  const std::string text =
      fmt::format("{} x {} x {}", plan.data_parallel, plan.ranks, plan.stages_per_rank);
  return plan.tensor_parallel > 1 ? fmt::format("{}, {} parts", text, plan.tensor_parallel) : text;
}

std::vector<std::string> plan_cells(const SweptPlan& plan, bool with_state, bool verbose) {
  std::vector<std::string> cells{format_seconds(plan.step_s),
                                 samples_rate(plan.samples_per_s()),
                                 format_seconds(plan.device_s()),
                                 format_seconds(plan.device_s_per_sample()),
                                 memory_cell(plan),
                                 plan.schedule,
                                 shape(plan),
                                 fmt::format("{} x {}", plan.microbatches, plan.microbatch)};
  if (with_state) cells.emplace_back(name(plan.optimizer_state));
  if (verbose) cells.push_back(format_seconds(plan.lower_bound_s));
  return cells;
}

std::string sweep_table(const Sweep& sweep, ReportStyle style) {
  std::vector<std::string> headings;
  for (const SweepAxis& axis : sweep.axes) headings.push_back(axis.key);
  const std::vector<std::string> of_plan{"step",
                                         "samples/s",
                                         "device time",
                                         "per sample",
                                         "fullest rank",
                                         "<schedule",
                                         "replicas x ranks x stages",
                                         "microbatches x samples"};
  headings.insert(headings.end(), of_plan.begin(), of_plan.end());
  const bool with_state = shards_any(sweep);
  if (with_state) headings.emplace_back("<optimizer state");
  if (style.verbose) headings.emplace_back("bound");
  const size_t columns = headings.size();
  Table table(std::move(headings));
  for (const SweepRow& row : sweep.rows) {
    std::vector<std::string> cells;
    for (const SweepValue& value : row.values) cells.push_back(value.text);
    cells.front() = mark(sweep, row) + cells.front();
    const std::vector<std::string> more = row.plan
                                              ? plan_cells(*row.plan, with_state, style.verbose)
                                              : std::vector<std::string>{"no plan"};
    cells.insert(cells.end(), more.begin(), more.end());
    cells.resize(columns, "-");
    table.row(std::move(cells));
  }
  return table.text(style.columns);
}

nlohmann::ordered_json value_json(const SweepAxis& axis, const SweepValue& value) {
  if (axis.counts) return std::stoll(value.text);
  return value.text;
}

nlohmann::ordered_json plan_json(const SweptPlan& plan) {
  nlohmann::ordered_json json{{"step_s", plan.step_s},
                              {"samples_per_s", plan.samples_per_s()},
                              {"device_seconds", plan.device_s()},
                              {"device_seconds_per_sample", plan.device_s_per_sample()},
                              {"peak_memory_bytes", plan.peak_memory_bytes}};
  if (plan.memory_bytes > 0) json["memory_bytes"] = plan.memory_bytes;
  if (plan.expected_s > 0) json["expected_s"] = plan.expected_s;
  json.update({{"schedule", plan.schedule},
               {"ranks", plan.ranks},
               {"data_parallel", plan.data_parallel},
               {"tensor_parallel", plan.tensor_parallel},
               {"stages_per_rank", plan.stages_per_rank},
               {"optimizer_state", name(plan.optimizer_state)},
               {"microbatches", plan.microbatches},
               {"microbatch", plan.microbatch},
               {"global_batch", plan.global_batch},
               {"lower_bound_s", plan.lower_bound_s},
               {"complete", plan.complete}});
  return json;
}

/// The arguments with which `plan` makes a row's plan, but for the costs and `-o`; values without a
/// flag are left out.
std::vector<std::string> row_flags(const Sweep& sweep, const SweepRow& row,
                                   const SweepQuestion& question) {
  std::vector<std::string> flags = question.flags;
  for (size_t at = 0; at < sweep.axes.size(); ++at) {
    if (sweep.axes[at].flag.empty()) continue;
    flags.push_back(sweep.axes[at].flag);
    flags.push_back(row.values[at].text);
  }
  return flags;
}

/// The files that a row's plan takes beside flags; "" where there are none.
std::string needed_files(const Sweep& sweep) {
  std::vector<std::string> files;
  for (const SweepAxis& axis : sweep.axes) {
    if (axis.in_file.empty() || std::ranges::find(files, axis.in_file) != files.end()) continue;
    files.push_back(axis.in_file);
  }
  return fmt::format("{}", fmt::join(files, ", and "));
}

nlohmann::ordered_json row_json(const Sweep& sweep, const SweepRow& row,
                                const SweepQuestion& question) {
  nlohmann::ordered_json json, in_files;
  for (size_t at = 0; at < sweep.axes.size(); ++at) {
    const SweepAxis& axis = sweep.axes[at];
    json["values"][axis.key] = value_json(axis, row.values[at]);
    if (axis.flag.empty()) in_files[axis.key] = json["values"][axis.key];
  }
  json["flags"] = row_flags(sweep, row, question);
  if (!in_files.empty()) json["in_files"] = std::move(in_files);
  if (row.plan) {
    json.update(plan_json(*row.plan));
  } else {
    json["problem"] = one_line(row.problem);
  }
  return json;
}

}  // namespace

std::string sweep_report(const Sweep& sweep, const SweepQuestion& question, ReportStyle style) {
  std::string text;
  if (!question.note.empty()) text += labelled("costs", question.note, style.columns) + "\n";
  text += sweep_table(sweep, style) + "\n";
  const SweepRow &fastest = *sweep.fastest(), &cheapest = *sweep.cheapest();
  text += labelled("* fastest",
                   fmt::format("{}: {} samples/s", values_text(sweep, fastest),
                               samples_rate(fastest.plan->samples_per_s())),
                   style.columns);
  text += labelled("$ cheapest",
                   fmt::format("{}: {} of devices per sample", values_text(sweep, cheapest),
                               format_seconds(cheapest.plan->device_s_per_sample())),
                   style.columns);
  for (const SweepRow& row : sweep.rows) {
    if (row.plan) continue;
    text +=
        labelled("no plan", values_text(sweep, row) + ": " + one_line(row.problem), style.columns);
  }
  if (const std::string files = needed_files(sweep); !files.empty())
    text += labelled("to plan", "a row needs " + files, style.columns);
  return text;
}

std::string row_command(const Sweep& sweep, const SweepRow& row, const SweepQuestion& question) {
  if (std::ranges::any_of(sweep.axes, &std::string::empty, &SweepAxis::flag)) return "";
  std::string command = "penstock plan " + in_shell(question.costs);
  for (const std::string& word : row_flags(sweep, row, question)) command += " " + in_shell(word);
  return command + " -o plan.yaml";
}

nlohmann::ordered_json sweep_json(const Sweep& sweep, const SweepQuestion& question) {
  nlohmann::ordered_json json;
  json["costs"] = question.costs;
  for (const SweepAxis& axis : sweep.axes) {
    json["sweep"][axis.key] = nlohmann::ordered_json::array();
    for (const SweepValue& value : axis.values)
      json["sweep"][axis.key].push_back(value_json(axis, value));
  }
  json["rows"] = nlohmann::ordered_json::array();
  for (const SweepRow& row : sweep.rows) json["rows"].push_back(row_json(sweep, row, question));
  json["fastest"] = sweep.fastest() - sweep.rows.data();
  json["cheapest"] = sweep.cheapest() - sweep.rows.data();
  return json;
}

}  // namespace penstock::cli
