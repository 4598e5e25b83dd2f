// `penstock compare`: a predicted and a real timeline, side by side, by kind of action and by rank.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "cli/commands.hpp"
#include "graph/error.hpp"
#include "pipeline/quantity.hpp"
#include "pipeline/timeline.hpp"

namespace penstock::cli {

namespace {

/// Times of the events of one kind, or of one rank.
struct Sum {
  int count = 0;
  double total_s = 0;
  double mean_s() const { return count > 0 ? total_s / count : 0; }
};

template <class Key, class KeyOf>
std::map<Key, Sum> sums(const Timeline& timeline, KeyOf key_of) {
  std::map<Key, Sum> result;
  for (const TimelineEvent& event : timeline) {
    Sum& sum = result[key_of(event)];
    ++sum.count;
    sum.total_s += event.end_s - event.start_s;
  }
  return result;
}

std::string error(double predicted, double actual) {
  return actual > 0 ? fmt::format("{:+.1f} %", 100 * (predicted / actual - 1)) : "";
}

void print_row(const std::string& what, double predicted_s, double actual_s) {
  fmt::print("  {:<16} {:>11} {:>11} {:>9}\n", what, format_seconds(predicted_s),
             format_seconds(actual_s), error(predicted_s, actual_s));
}

int rank_count(const Timeline& timeline) {
  int ranks = 0;
  for (const TimelineEvent& event : timeline) ranks = std::max(ranks, event.rank + 1);
  return ranks;
}

Timeline compute_only(const Timeline& timeline) {
  Timeline result;
  std::ranges::copy_if(timeline, std::back_inserter(result), [](const TimelineEvent& event) {
    return is_compute(event.action.kind) || event.action.kind == Kind::optimizer;
  });
  return result;
}

/// Mean time of an action, by kind.
void print_kinds(const Timeline& predicted, const Timeline& actual) {
  const auto kind = [](const TimelineEvent& event) { return event.action.kind; };
  const auto expected = sums<Kind>(predicted, kind), found = sums<Kind>(actual, kind);
  fmt::print("\n  {:<16} {:>11} {:>11} {:>9}\n", "mean time of", "predicted", "measured", "error");
  for (const auto& [which, sum] : found) {
    const auto other = expected.find(which);
    if (other == expected.end()) continue;
    print_row(std::string(name(which)), other->second.mean_s(), sum.mean_s());
  }
}

/// Compute and idle time of every rank.
void print_rank_times(const Timeline& predicted, const Timeline& actual) {
  const auto rank = [](const TimelineEvent& event) { return event.rank; };
  const auto expected = sums<int>(compute_only(predicted), rank);
  const auto found = sums<int>(compute_only(actual), rank);
  fmt::print("\n  {:<16} {:>11} {:>11} {:>9}\n", "per rank", "predicted", "measured", "error");
  for (const auto& [which, sum] : found) {
    const double before = expected.at(which).total_s;
    print_row(fmt::format("rank {} busy", which), before, sum.total_s);
    print_row(fmt::format("rank {} idle", which), makespan_s(predicted) - before,
              makespan_s(actual) - sum.total_s);
  }
}

/// The same plan gives the same compute actions on the same ranks.
void check_same_program(const CompareOptions& options, const Timeline& predicted,
                        const Timeline& actual) {
  const auto rank = [](const TimelineEvent& event) { return event.rank; };
  const auto expected = sums<int>(compute_only(predicted), rank);
  const auto found = sums<int>(compute_only(actual), rank);
  const auto same = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.count == b.second.count;
  };
  if (std::ranges::equal(expected, found, same)) return;
  throw InputError(options.actual,
                   fmt::format("{} ranks with {} actions, but {} has {} ranks with {} actions",
                               rank_count(actual), compute_only(actual).size(), options.predicted,
                               rank_count(predicted), compute_only(predicted).size()),
                   "Compare two timelines of the same plan.");
}

}  // namespace

int compare(const CompareOptions& options) {
  const Trace predicted = read_trace(options.predicted);
  const Trace actual = read_trace(options.actual);
  check_same_program(options, predicted.timeline, actual.timeline);
  fmt::print("predicted  {}\nmeasured   {}\n\n", predicted.title, actual.title);
  fmt::print("  {:<16} {:>11} {:>11} {:>9}\n", "", "predicted", "measured", "error");
  print_row("step", makespan_s(predicted.timeline), makespan_s(actual.timeline));
  print_kinds(predicted.timeline, actual.timeline);
  print_rank_times(predicted.timeline, actual.timeline);
  return 0;
}

}  // namespace penstock::cli
