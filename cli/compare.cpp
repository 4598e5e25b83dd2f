// `penstock compare`: a predicted and a measured step, and where they differ.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/report/ending.hpp"
#include "cli/report/table.hpp"
#include "cli/report/terminal.hpp"
#include "pipeline/program/timeline.hpp"
#include "simulator/explain/html.hpp"
#include "simulator/explain/parts_json.hpp"
#include "simulator/explain/rank_time.hpp"

namespace penstock::cli {

namespace {

/// The same things of the prediction and of the measurement.
struct Pair {
  double predicted = 0, measured = 0;
};

using Key = std::pair<int, std::string>;  // rank, action

/// Both timelines, joined action by action.
struct Joined {
  Trace predicted, measured;
  struct Entry {
    int rank;
    Action action;
    int64_t bytes;
    Pair duration_s;
  };
  std::vector<Entry> entries;
  Pair step_s;
  int ranks = 0;
};

std::map<Key, const TimelineEvent*> by_action(const Trace& trace, const std::string& path) {
  std::map<Key, const TimelineEvent*> events;
  for (const TimelineEvent& event : trace.timeline) {
    const std::string action = to_string(event.action);
    if (events.emplace(Key{event.rank, action}, &event).second) continue;
    throw InputError(path, fmt::format("rank {} runs {} twice", event.rank, action),
                     "Give traces of one step each.");
  }
  if (events.empty()) throw InputError(path, "the timeline is empty", "Give the trace of a step.");
  return events;
}

[[noreturn]] void refuse_missing(const Key& key, const std::string& with, const std::string& path) {
  throw InputError(
      path, fmt::format("rank {} never runs {}, as it does in {}", key.first, key.second, with),
      "Compare traces of the same plan: simulate --trace and execute --trace of it.");
}

/// `simulate` predicts one replica, which the others are to equal; ranks are numbered replica after
/// replica.
void repeat(Trace& trace, int replicas) {
  const int ranks = rank_count(trace.timeline);
  const auto repeat_all = [&](auto& items, auto&& key) {
    const auto one = items;
    for (int replica = 1; replica < replicas; ++replica) {
      for (auto item : one) {
        item.rank += replica * ranks;
        items.push_back(item);
      }
    }
    std::ranges::stable_sort(items, {}, key);
  };
  repeat_all(trace.timeline, [](const TimelineEvent& e) { return std::pair(e.start_s, e.rank); });
  repeat_all(trace.memory, [](const MemorySample& s) { return std::pair(s.time_s, s.rank); });
}

Joined join(const CompareOptions& options) {
  Trace predicted = read_trace(options.predicted), measured = read_trace(options.actual);
  if (predicted.measured && !measured.measured) {
    throw InputError(options.predicted, "is of a step that was executed, the other of a simulation",
                     fmt::format("Give the prediction first: penstock compare {} {}",
                                 options.actual, options.predicted));
  }
  const int ranks = rank_count(predicted.timeline), of_all = rank_count(measured.timeline);
  const int replicas = ranks > 0 && of_all % ranks == 0 ? of_all / ranks : 1;
  repeat(predicted, replicas);
  const auto expected = by_action(predicted, options.predicted);
  const auto actual = by_action(measured, options.actual);
  for (const auto& [key, event] : actual) {
    if (!expected.contains(key)) refuse_missing(key, options.actual, options.predicted);
  }
  Joined joined;
  joined.step_s = {makespan_s(predicted.timeline), makespan_s(measured.timeline)};
  for (const auto& [key, event] : expected) {
    const auto other = actual.find(key);
    if (other == actual.end()) refuse_missing(key, options.predicted, options.actual);
    const TimelineEvent& real = *other->second;
    joined.entries.push_back({event->rank,
                              event->action,
                              real.bytes,
                              {event->end_s - event->start_s, real.end_s - real.start_s}});
    joined.ranks = std::max(joined.ranks, event->rank + 1);
  }
  joined.predicted = std::move(predicted);
  joined.measured = std::move(measured);
  return joined;
}

std::string seconds(double value) {
  return value < 0 ? "-" + format_seconds(-value) : format_seconds(value);
}

/// The prediction's error, relative to what was measured.
std::string error(Pair pair) {
  if (pair.measured <= 0) return "";
  return fmt::format("{:+.1f} %", 100 * (pair.predicted / pair.measured - 1));
}

/// Sum and number of what falls under one heading.
struct Sum {
  Pair s;
  int64_t count = 0;
  double bytes = 0;  // sums of any bytes are numbers still

  void add(const Joined::Entry& entry) {
    s.predicted += entry.duration_s.predicted;
    s.measured += entry.duration_s.measured;
    bytes += static_cast<double>(entry.bytes);
    ++count;
  }
  Pair mean_s() const {
    const auto n = static_cast<double>(count);
    return {s.predicted / n, s.measured / n};
  }
};

bool is_busy(Kind kind) { return is_compute(kind) || kind == Kind::optimizer; }

void print_kinds(const Joined& joined) {
  std::map<Kind, Sum> kinds;
  for (const Joined::Entry& entry : joined.entries) {
    if (!is_send(entry.action.kind) && !is_receive(entry.action.kind)) {
      kinds[entry.action.kind].add(entry);
    }
  }
  Table table({"<action", "count", "predicted", "measured", "error", "per rank and step"});
  for (const auto& [kind, sum] : kinds) {
    table.row({std::string(name(kind)), std::to_string(sum.count), seconds(sum.mean_s().predicted),
               seconds(sum.mean_s().measured), error(sum.s),
               seconds((sum.s.predicted - sum.s.measured) / joined.ranks)});
  }
  fmt::print("\nActions, mean times and what their errors add up to\n\n{}",
             table.text(terminal_columns()));
}

void print_ranks(const Joined& joined) {
  std::vector<Pair> busy_s(static_cast<size_t>(joined.ranks));
  for (const Joined::Entry& entry : joined.entries) {
    if (!is_busy(entry.action.kind)) continue;
    busy_s[static_cast<size_t>(entry.rank)].predicted += entry.duration_s.predicted;
    busy_s[static_cast<size_t>(entry.rank)].measured += entry.duration_s.measured;
  }
  Table table({"rank", "busy predicted", "measured", "error", "idle predicted", "measured"});
  for (size_t rank = 0; rank < busy_s.size(); ++rank) {
    table.row({std::to_string(rank), seconds(busy_s[rank].predicted),
               seconds(busy_s[rank].measured), error(busy_s[rank]),
               seconds(joined.step_s.predicted - busy_s[rank].predicted),
               seconds(joined.step_s.measured - busy_s[rank].measured)});
  }
  fmt::print("\nRanks\n\n{}", table.text(terminal_columns()));
}

/// Each rank's errors add up to the step's.
void print_causes(const Joined& joined) {
  const std::vector<RankTime> ranks =
      errors(joined.predicted.timeline, joined.measured.timeline, joined.ranks);
  const auto cell = [&](double error_s) {
    const double percent = joined.step_s.measured > 0 ? 100 * error_s / joined.step_s.measured : 0;
    return fmt::format("{} {:+6.1f} %", seconds(error_s), percent);
  };
  Table table({"rank", "compute", "waiting", "transfers", "reduction", "optimizer", "step"});
  const auto row = [&](std::string name, const RankTime& error) {
    table.row({std::move(name), cell(error.compute_s), cell(error.waiting_s),
               cell(error.transfers_s), cell(error.reduction_s), cell(error.optimizer_s),
               cell(error.total_s())});
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank) row(std::to_string(rank), ranks[rank]);
  row("mean", mean(ranks));
  fmt::print("\nErrors by cause, and in per cent of the measured step\n\n{}",
             table.text(terminal_columns()));
}

/// By sending stage, receiving stage and direction: how long the receiver waited.
void print_transfers(const Joined& joined) {
  std::map<std::tuple<int, int, bool>, Sum> routes;
  for (const Joined::Entry& entry : joined.entries) {
    if (!is_receive(entry.action.kind)) continue;
    routes[{peer_stage(entry.action), entry.action.stage, entry.action.kind == Kind::recv_backward}]
        .add(entry);
  }
  if (routes.empty()) return;
  Table table({"<stages", "<carries", "count", "bytes each", "wait predicted", "measured"});
  for (const auto& [route, sum] : routes) {
    const auto& [from, to, backward] = route;
    table.row({fmt::format("{} to {}", from, to), backward ? "gradients" : "activations",
               std::to_string(sum.count), format_bytes(sum.bytes / static_cast<double>(sum.count)),
               seconds(sum.mean_s().predicted), seconds(sum.mean_s().measured)});
  }
  fmt::print("\nTransfers, mean time that the receiver waited\n\n{}",
             table.text(terminal_columns()));
}

/// Times by cause; those of a rank add up to the step.
nlohmann::ordered_json comparison_json(const Joined& joined) {
  const std::vector<RankTime> predicted = rank_times(joined.predicted.timeline, joined.ranks),
                              measured = rank_times(joined.measured.timeline, joined.ranks);
  nlohmann::ordered_json json = {
      {"step_s", {{"predicted", joined.step_s.predicted}, {"measured", joined.step_s.measured}}},
      {"ranks", nlohmann::ordered_json::array()}};
  for (size_t rank = 0; rank < predicted.size(); ++rank) {
    json["ranks"].push_back({{"predicted", to_json(predicted[rank])},
                             {"measured", to_json(measured[rank])},
                             {"error", to_json(predicted[rank] - measured[rank])}});
  }
  return json;
}

void print_text(const CompareOptions& options, const Joined& joined) {
  fmt::print("{}",
             labelled("step",
                      fmt::format("predicted {}, measured {}: {}", seconds(joined.step_s.predicted),
                                  seconds(joined.step_s.measured), error(joined.step_s)),
                      terminal_columns()));
  print_kinds(joined);
  print_ranks(joined);
  print_causes(joined);
  print_transfers(joined);
  if (!options.html.empty()) fmt::print("\n{}", ending({options.html}, {}));
}

void write_page(const CompareOptions& options, const Joined& joined) {
  const size_t actions = 2 * joined.entries.size();
  if (actions > max_explained_actions) {
    throw InputError("--html",
                     fmt::format("{} actions are more than a browser can show ({})", actions,
                                 max_explained_actions),
                     "Compare traces of fewer microbatches: the steady state repeats.");
  }
  const std::string title =
      fmt::format("{} and {}", std::filesystem::path(options.predicted).filename().string(),
                  std::filesystem::path(options.actual).filename().string());
  write_file(options.html, to_html(ComparisonPage{title, joined.predicted, joined.measured}));
}

}  // namespace

int compare(const CompareOptions& options) {
  const Joined joined = join(options);
  if (!options.html.empty()) write_page(options, joined);
  if (options.json) {
    fmt::print("{}\n", comparison_json(joined).dump());
  } else {
    print_text(options, joined);
  }
  return 0;
}

}  // namespace penstock::cli
