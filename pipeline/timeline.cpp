// Reads traces back.
#include "pipeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pipeline/json.hpp"

namespace penstock {

namespace {

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
  if (rank < 0 || rank > INT32_MAX) value.refuse("no rank", "Ranks count from 0.");
  return static_cast<int>(rank);
}

TimelineEvent read_event(const JsonValue& value) {
  const std::vector<JsonValue> entry = tuple(value, 5);
  return {read_rank(entry[0]), parse_action(entry[1].text(), entry[1].place()), entry[2].number(),
          entry[3].number(), entry[4].integer()};
}

MemorySample read_sample(const JsonValue& value) {
  const std::vector<JsonValue> entry = tuple(value, 3);
  return {read_rank(entry[0]), entry[1].number(), entry[2].integer()};
}

}  // namespace

Trace read_trace(const std::filesystem::path& path) {
  const nlohmann::json document = read_json(path);
  const std::string file = path.string();
  const JsonValue root(document, file);
  if (!root.has("penstock") || !document["penstock"].is_object()) {
    root.refuse("not a trace that Penstock wrote", "Write one with --trace.");
  }
  const JsonValue member = root.at("penstock");
  require_version(member, trace_version);
  Trace trace;
  trace.title = member.text("title");
  for (const JsonValue& value : member.list("events")) trace.timeline.push_back(read_event(value));
  for (const JsonValue& value : member.list("memory")) trace.memory.push_back(read_sample(value));
  return trace;
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

}  // namespace penstock
