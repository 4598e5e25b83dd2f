// Writes timelines as Chrome traces.
//
// A process is a rank; thread 0 is its compute, the threads after it its transfers: as many as are
// needed for none to overlap another, since the format lets slices of one thread only nest. The
// member `penstock` holds the same events and memory samples exactly.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "pipeline/program/timeline.hpp"

namespace penstock {

namespace {

constexpr double us_per_s = 1e6;

/// `text` as JSON, with quotes.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double finite_time(double value) {
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
    add("\"penstock\":{{\"version\":{},\"title\":{},{}\n\"events\":[", trace_version,
        json_text(trace.title), trace.measured ? "\"measured\":true," : "");
    std::string_view separator = "\n";
    for (const TimelineEvent& event : trace.timeline) {
      add("{}[{},\"{}\",{},{},{}]", separator, event.rank, to_string(event.action), event.start_s,
          event.end_s, event.bytes);
      separator = ",\n";
    }
    text_ += "],\n\"memory\":[";
    separator = "\n";
    for (const MemorySample& sample : trace.memory) {
      add("{}[{},{},{}]", separator, sample.rank, finite_time(sample.time_s), sample.bytes);
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
      add("{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{"
          "}",
          to_string(event.action), name(event.action.kind), event.rank, thread,
          finite_time(event.start_s) * us_per_s,
          (finite_time(event.end_s) - event.start_s) * us_per_s);
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
          sample.rank, finite_time(sample.time_s) * us_per_s, sample.bytes);
    }
  }

  std::string text_;
  bool first_ = true;
};

}  // namespace

std::string to_chrome_trace(const Trace& trace) { return TraceWriter().write(trace); }

}  // namespace penstock
