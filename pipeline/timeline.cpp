// Timelines as Chrome traces.
//
// A process is a rank; thread 0 is its compute, the threads after it its transfers: as many as are
// needed for none to overlap another, since the format lets slices of one thread only nest. The
// member `penstock` holds the same events and memory samples exactly.
#include "pipeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "pipeline/json.hpp"

namespace penstock {

namespace {

constexpr int64_t trace_version = 1;
constexpr double us_per_s = 1e6;

/// `text` as JSON, with quotes.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double finite(double value) {
  if (!std::isfinite(value)) throw std::logic_error("a timeline holds a time that is not finite");
  return value;
}

/// Puts each transfer of a rank on the first of its threads that is free.
class TransferThreads {
 public:
  int thread(const TimelineEvent& event) {
    std::vector<double>& free_at = free_at_[event.rank];
    auto free = std::ranges::find_if(free_at, [&](double end) { return end <= event.start_s; });
    if (free == free_at.end()) free = free_at.insert(free, 0.0);
    *free = event.end_s;
    return 1 + static_cast<int>(free - free_at.begin());
  }
  /// Transfer threads of each rank that has any.
  std::map<int, int> counts() const {
    std::map<int, int> result;
    for (const auto& [rank, free_at] : free_at_) result[rank] = static_cast<int>(free_at.size());
    return result;
  }

 private:
  std::map<int, std::vector<double>> free_at_;
};

class TraceWriter {
 public:
  std::string write(const Trace& trace) {
    text_ = "{\"traceEvents\":[";
    write_slices(trace.timeline);
    write_memory(trace.memory);
    text_ += "\n],\"displayTimeUnit\":\"ms\",\n";
    add("\"penstock\":{{\"version\":{},\"title\":{},\n\"events\":[", trace_version,
        json_text(trace.title));
    std::string_view separator = "\n";
    for (const TimelineEvent& event : trace.timeline) {
      add("{}[{},\"{}\",{},{},{}]", separator, event.rank, to_string(event.action), event.start_s,
          event.end_s, event.bytes);
      separator = ",\n";
    }
    text_ += "],\n\"memory\":[";
    separator = "\n";
    for (const MemorySample& sample : trace.memory) {
      add("{}[{},{},{}]", separator, sample.rank, finite(sample.time_s), sample.bytes);
      separator = ",\n";
    }
    text_ += "]}}\n";
    return std::move(text_);
  }

 private:
  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }

  void begin_entry() {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
  }

  void write_name(std::string_view what, int rank, int thread, const std::string& name) {
    begin_entry();
    add("{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}}", what,
        rank, thread, name);
  }

  void write_slices(const Timeline& timeline) {
    TransferThreads threads;
    std::map<int, bool> ranks;
    for (const TimelineEvent& event : timeline) {
      const bool moves = is_send(event.action.kind) || is_receive(event.action.kind);
      const int thread = moves ? threads.thread(event) : 0;
      ranks[event.rank] = true;
      begin_entry();
      add("{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}",
          to_string(event.action), name(event.action.kind), event.rank, thread,
          finite(event.start_s) * us_per_s, (finite(event.end_s) - event.start_s) * us_per_s);
      if (moves) add(",\"args\":{{\"bytes\":{}}}", event.bytes);
      text_ += '}';
    }
    for (const auto& [rank, present] : ranks) {
      write_name("process_name", rank, 0, fmt::format("rank {}", rank));
      write_name("thread_name", rank, 0, "compute");
    }
    for (const auto& [rank, count] : threads.counts()) {
      for (int thread = 1; thread <= count; ++thread) {
        write_name("thread_name", rank, thread, "transfers");
      }
    }
  }

  void write_memory(const std::vector<MemorySample>& memory) {
    for (const MemorySample& sample : memory) {
      begin_entry();
      add("{{\"ph\":\"C\",\"name\":\"memory\",\"pid\":{},\"ts\":{},\"args\":{{\"bytes\":{}}}}}",
          sample.rank, finite(sample.time_s) * us_per_s, sample.bytes);
    }
  }

  std::string text_;
  bool first_ = true;
};

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

std::string to_chrome_trace(const Trace& trace) { return TraceWriter().write(trace); }

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
