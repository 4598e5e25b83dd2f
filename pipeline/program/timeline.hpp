// A timeline of actions, measured or predicted: the common result of simulator and executor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/program/action.hpp"

namespace penstock {

struct TimelineEvent {
  int rank = 0;
  Action action;
  double start_s = 0, end_s = 0;
  int64_t bytes = 0;  // moved by a transfer
  bool operator==(const TimelineEvent&) const = default;
};

/// Events ascending by (start_s, rank, order in the rank's program). Times from the step's start.
using Timeline = std::vector<TimelineEvent>;

/// Bytes held by a rank from a moment on.
struct MemorySample {
  int rank = 0;
  double time_s = 0;
  int64_t bytes = 0;
  bool operator==(const MemorySample&) const = default;
};

/// Version of a trace's member `penstock`; read_trace refuses others.
inline constexpr int64_t trace_version = 1;

struct Trace {
  std::string title;
  Timeline timeline;
  std::vector<MemorySample> memory;
  bool measured = false;  // of a step that was executed; else of one that was simulated
};

/// Chrome trace JSON (Perfetto opens it): compute, transfers and memory of each rank as tracks of
/// their own; it also holds the list of events, which `read_trace` reads back exactly.
std::string to_chrome_trace(const Trace& trace);
/// Throws InputError naming the file.
Trace read_trace(const std::filesystem::path& path);
/// The same from the file's text; `file` is only named in messages.
Trace parse_trace(std::string_view text, std::string_view file);

/// One more than the highest number of a rank.
int rank_count(const Timeline& timeline);

/// Last end minus first start; 0 for an empty timeline.
double makespan_s(const Timeline& timeline);

/// Seconds that a rank computes: its F, B, I, W and OVERLAP_F_B.
double compute_s(const Timeline& timeline, int rank);

}  // namespace penstock
