#include "cli/report/search_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.hpp"
#include "planner/judge.hpp"
#include "planner/splits/search.hpp"

namespace penstock::cli {

namespace {

/// Rows of the table of layouts.
constexpr size_t most_layouts = 12;
/// Parts of less are not shown.
constexpr double shown_percent = 0.05;
/// A share of the ranks' time: where more of it is work, nothing keeps the step from its bound.
constexpr double all_but_nothing = 0.995;

bool judged(const Planned& planned) { return planned.judged > 0; }

std::string expected_step(const Searched& one) {
  return one.expected_s > 0 ? format_seconds(one.expected_s) : "-";
}

/// The row of one layout.
std::string best_step(const Searched& one) {
  if (one.best_s > 0) return format_seconds(one.best_s);
  const bool fits = one.min_memory_bytes <= one.max_memory_bytes;
  return one.simulated > 0 || !fits ? "too big" : "-";
}

std::string shape(const Searched& one) {
  std::string text = fmt::format("{} x {} x {}", one.data_parallel, one.ranks, one.stages_per_rank);
  if (one.tensor_parallel > 1) text += fmt::format(", {} parts", one.tensor_parallel);
  if (one.optimizer_state == OptimizerState::sharded) text += ", sharded state";
  return text;
}

std::string batches(const Searched& one) {
  return fmt::format("{} x {}", one.microbatches, one.microbatch);
}

std::string schedule(const Searched& one) {
  return one.schedule + (one.branches ? ", branches" : "");
}

std::string splits(const Searched& one) {
  return one.splits < 1'000'000    ? fmt::to_string(one.splits)
         : one.splits == INT64_MAX ? "> 9e18"
                                   : fmt::format("{:.1e}", static_cast<double>(one.splits));
}

std::string searched(const Planned& planned) {
  int64_t simulated = 0;
  for (const Searched& one : planned.searched) simulated += one.simulated;
  std::string text = planned.manual ? "the split as given" : format_number(planned.units, "unit");
  text +=
      fmt::format(" on {}: {}, {} looked into, {} simulated",
                  format_number(planned.devices, "rank"), format_number(planned.layouts, "layout"),
                  planned.searched.size(), format_number(simulated, "split"));
  if (planned.memory.any())
    text += fmt::format("; {} per rank ({})", format(planned.memory), planned.memory.source);
  return text;
}

/// `ramp 12.0 %, transfers 3.1 %`: of the time that the parts add up to.
std::string shares(const TimeParts& time,
                   const std::vector<std::pair<const char*, double>>& parts) {
  std::string list;
  for (const auto& [name, seconds] : parts) {
    const double percent = 100 * seconds / time.total_s();
    if (percent < shown_percent) continue;
    list += fmt::format("{}{} {:.1f} %", list.empty() ? "" : ", ", name, percent);
  }
  return list;
}

std::string causes(const std::optional<TimeParts>& time) {
  if (!time) return "";
  const IdleParts& idle = time->idle;
  return shares(*time, {{"ramp", idle.ramp_s},
                        {"imbalance", idle.imbalance_s},
                        {"transfers", idle.transfers_s},
                        {"launch", idle.launch_s},
                        {"recompute", time->lost_to_memory_s()},
                        {"all-reduce", idle.all_reduce_s}});
}

/// The causes that keep the step from the bound, the largest first; "" where next to all is work.
std::string binding(const TimeParts& time) {
  if (time.work_s > all_but_nothing * time.total_s()) return "";
  std::vector<std::pair<const char*, double>> lost{{"compute", time.lost_to_compute_s()},
                                                   {"memory", time.lost_to_memory_s()},
                                                   {"network", time.lost_to_network_s()},
                                                   {"launch", time.lost_to_launch_s()}};
  std::ranges::stable_sort(lost, std::greater{}, &std::pair<const char*, double>::second);
  return fmt::format("{}: of the ranks' time {:.1f} % is work; {}", lost.front().first,
                     100 * time.work_s / time.total_s(), causes(time));
}

std::string described(const Searched& one) {
  std::string text = fmt::format("{} on {}", schedule(one), format_number(one.ranks, "rank"));
  if (one.tensor_parallel > 1) text += fmt::format(" of {} parts", one.tensor_parallel);
  if (one.data_parallel > 1) text += fmt::format(" x {} replicas", one.data_parallel);
  if (one.stages_per_rank > 1) text += fmt::format(", {} stages each", one.stages_per_rank);
  if (one.expected_s > 0) return text + ": " + format_seconds(one.expected_s) + " expected";
  return text + ": " + format_seconds(one.best_s);
}

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

/// The plans that were passed over for this one.
std::string left(const Planned& planned) {
  const double step_s = planned.plan.prediction->step_s;
  std::string text;
  if (const auto& fastest = planned.fastest) {
    text = fmt::format(
        "{}, {} less, which is below the noise of {}, and less simple (--fastest takes it)",
        described(*fastest), percent(planned.gain), percent(planned.noise));
  }
  if (const auto& means = planned.fastest_on_means) {
    text += fmt::format("{}{}, though {} on mean times", text.empty() ? "" : "; ",
                        described(*means), format_seconds(means->best_s));
  }
  if (const auto& fewer = planned.fewer_ranks) {
    const double more = fewer->expected_s > 0 ? fewer->expected_s / planned.expected_or_step_s()
                                              : fewer->best_s / step_s;
    text += fmt::format("{}{}, {:.2f} % more (--ranks {} takes it)", text.empty() ? "" : "; ",
                        described(*fewer), 100 * (more - 1),
                        fewer->ranks * fewer->data_parallel * fewer->tensor_parallel);
  }
  return text;
}

/// How good the plan is.
std::string proof(const Planned& planned) {
  const std::string of = planned.fastest_on_means ? "the fastest on mean times is "
                         : planned.fastest        ? "the fastest is "
                                                  : "";
  const bool on_means = judged(planned) && !planned.fastest_on_means;
  if (planned.complete)
    return fmt::format(
        "{}the best of its space{}: every other plan was simulated or cannot be "
        "faster",
        of, on_means ? " on mean times" : "");
  const double less = 1 - planned.proven_s() / planned.plan.prediction->step_s;
  if (less <= near_enough && of.empty())
    return fmt::format("the best of its space{} to {:g} %: no other plan can be faster by more",
                       on_means ? " on mean times" : "", 100 * near_enough);
  const char* left = planned.stopped ? "the search stopped when it was asked to"
                     : planned.all_seen
                         ? "ranks may recompute otherwise than was looked for"
                         : "the search stopped after its effort (--time gives it more)";
  return fmt::format("no plan can take less than {}, which is {:.2f} % less; {}",
                     format_seconds(planned.proven_s()), 100 * less, left);
}

/// The plans that were judged by the step that is to be expected.
std::string expected(const Planned& planned) {
  return fmt::format(
      "the mean of {} with drawn times, for the best plans of {}; those of the others take longer "
      "on mean times already, or were not judged",
      format_number(judged_steps, "step"), format_number(planned.judged, "layout"));
}

/// The bound by relaxation alone.
std::string bound(const Planned& planned) {
  std::string text = fmt::format("{} by relaxation alone, the plan is {:.2f} % above",
                                 format_seconds(planned.lower_bound_s), 100 * planned.gap());
  if (format_seconds(planned.split_bound_s) != format_seconds(planned.lower_bound_s))
    text += fmt::format("; {} for this split, schedule and number of microbatches",
                        format_seconds(planned.split_bound_s));
  if (!planned.complete)
    text += fmt::format("; what the search left takes {} at least",
                        format_seconds(planned.open_bound_s));
  return text;
}

}  // namespace

std::string search_table(const Planned& planned, int columns) {
  std::vector<std::string> headings{"<",
                                    "<schedule",
                                    "replicas x ranks x stages",
                                    "microbatches x samples",
                                    "splits",
                                    "best found",
                                    "bound",
                                    "least memory"};
  if (judged(planned)) headings.emplace_back("expected");
  Table table(std::move(headings));
  for (const Searched& one : planned.searched) {
    if (&one - planned.searched.data() == most_layouts) break;
    std::vector<std::string> cells{one.chosen ? "*" : " ",
                                   schedule(one),
                                   shape(one),
                                   batches(one),
                                   splits(one),
                                   best_step(one),
                                   format_seconds(one.lower_bound_s),
                                   format_bytes(one.min_memory_bytes)};
    if (judged(planned)) cells.push_back(expected_step(one));
    table.row(std::move(cells));
  }
  std::string text = labelled("searched", searched(planned), columns) + "\n" + table.text(columns);
  if (planned.searched.size() > most_layouts)
    text += fmt::format("  … and {} more\n", planned.searched.size() - most_layouts);
  return text;
}

std::string search_conclusion(const Planned& planned, ReportStyle style) {
  std::string text = labelled("proof", proof(planned), style.columns);
  if (judged(planned) && style.verbose)
    text += labelled("expected", expected(planned), style.columns);
  if (style.verbose) text += labelled("bound", bound(planned), style.columns);
  if (const std::string binds = planned.time ? binding(*planned.time) : ""; !binds.empty())
    text += labelled("binding", binds, style.columns);
  if (const std::string passed = left(planned); !passed.empty())
    text += labelled("left", passed, style.columns);
  return text;
}

std::string relaxations(const Planned& planned, const std::vector<WhatIf>& relaxed, int columns) {
  if (relaxed.empty()) return "";
  std::string text;
  for (const WhatIf& one : relaxed)
    text += fmt::format("{} {} ({}), {:.1f} % above the bound; ", one.change,
                        format_seconds(one.step_s), one.plan,
                        100 * std::max(0.0, one.step_s / planned.lower_bound_s - 1));
  const bool explained = relaxed.back().step_s <= (1 + large_gap) * planned.lower_bound_s;
  return labelled("relaxed",
                  text + (explained ? "what was relaxed is the rest of the gap"
                                    : "the rest are whole units and microbatches, filling and "
                                      "emptying, or plans that were not found"),
                  columns);
}

std::string plan_explanation(const Planned& planned, const std::vector<WhatIf>& what_if,
                             int columns) {
  std::string text;
  const Out out(text);
  const double step_s = planned.plan.prediction->step_s;
  Table table({"<alternative", "replicas x ranks x stages", "microbatches x samples", "step",
               "slower", "memory", "<lost to"});
  for (const Alternative& one : planned.alternatives) {
    table.row({schedule(one.layout), shape(one.layout), batches(one.layout),
               format_seconds(one.layout.best_s),
               fmt::format("{:.2f} %", 100 * (one.layout.best_s / step_s - 1)),
               format_bytes(one.peak_memory_bytes), causes(one.time)});
  }
  if (!planned.alternatives.empty()) fmt::format_to(out, "\n{}", table.text(columns));
  for (const WhatIf& one : what_if) {
    const std::string step =
        fmt::format("{}: {} ({:+.2f} %) by {}", one.change, format_seconds(one.step_s),
                    100 * (one.step_s / step_s - 1), one.plan);
    fmt::format_to(out, "{}{}", &one == &what_if.front() ? "\n" : "",
                   labelled("with", step, columns));
  }
  if (!what_if.empty()) text += "\n";
  return text;
}

}  // namespace penstock::cli
