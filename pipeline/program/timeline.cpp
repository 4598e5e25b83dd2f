// Reads traces back.
#include "pipeline/program/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/json.hpp"

namespace penstock {

namespace {

constexpr double latest_s = 1e300;  // differences and microseconds are finite still

/// A list of exactly `size` values.
std::vector<JsonValue> tuple(const JsonValue& value, size_t size) {
  std::vector<JsonValue> entries = value.list();
  if (entries.size() != size) {
    value.refuse(fmt::format("{} values where {} belong", entries.size(), size),
                 "The trace was changed or damaged: write it again.");
  }
  return entries;
}

int read_rank(const JsonValue& value) {
  const int64_t rank = value.integer();
  if (rank < 0 || rank >= max_ranks) {
    value.refuse(fmt::format("{} is no rank", rank),
                 fmt::format("Ranks count from 0 to at most {}.", max_ranks - 1));
  }
  return static_cast<int>(rank);
}

double read_time(const JsonValue& value) {
  const double seconds = value.number();
  if (std::abs(seconds) <= latest_s) return seconds;
  value.refuse(fmt::format("{} is no time", seconds), "Times are in seconds.");
}

int64_t read_size(const JsonValue& value) {
  const int64_t bytes = value.integer();
  if (bytes >= 0) return bytes;
  value.refuse(fmt::format("{} bytes", bytes), "Bytes are not negative.");
}

TimelineEvent read_event(const JsonValue& value) {
  const std::vector<JsonValue> entry = tuple(value, 5);
  return {read_rank(entry[0]), parse_action(entry[1].text(), entry[1].place()), read_time(entry[2]),
          read_time(entry[3]), read_size(entry[4])};
}

MemorySample read_sample(const JsonValue& value) {
  const std::vector<JsonValue> entry = tuple(value, 3);
  return {read_rank(entry[0]), read_time(entry[1]), read_size(entry[2])};
}

}  // namespace

Trace read_trace(const std::filesystem::path& path) {
  return parse_trace(read_file(path), path.string());
}

Trace parse_trace(std::string_view text, std::string_view file) {
  const nlohmann::json document = parse_json(text, file);
  const JsonValue root(document, file);
  if (!root.has("penstock") || !document["penstock"].is_object()) {
    root.refuse("not a trace that Penstock wrote", "Write one with --trace.");
  }
  const JsonValue member = root.at("penstock");
  require_version(member, trace_version);
  Trace trace;
  trace.title = member.text("title");
  trace.measured = member.has("measured") && member.at("measured").boolean();
  for (const JsonValue& value : member.list("events")) trace.timeline.push_back(read_event(value));
  for (const JsonValue& value : member.list("memory")) trace.memory.push_back(read_sample(value));
  return trace;
}

int rank_count(const Timeline& timeline) {
  int ranks = 0;
  for (const TimelineEvent& event : timeline) ranks = std::max(ranks, event.rank + 1);
  return ranks;
}

double makespan_s(const Timeline& timeline) {
  if (timeline.empty()) return 0;
  double first = timeline.front().start_s;
  double last = timeline.front().end_s;
  for (const TimelineEvent& event : timeline) {
    first = std::min(first, event.start_s);
    last = std::max(last, event.end_s);
  }
  return last - first;
}

double compute_s(const Timeline& timeline, int rank) {
  double sum_s = 0;
  for (const TimelineEvent& event : timeline) {
    if (event.rank == rank && is_compute(event.action.kind)) sum_s += event.end_s - event.start_s;
  }
  return sum_s;
}

}  // namespace penstock
