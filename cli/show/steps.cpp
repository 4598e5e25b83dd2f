// Traces and programs of a step, and tensors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/file.hpp"
#include "base/quantity.hpp"
#include "base/safetensors.hpp"
#include "cli/show/lines.hpp"
#include "cli/show/show_text.hpp"
#include "pipeline/program/timeline.hpp"
#include "pipeline/program/torch_csv.hpp"

namespace penstock::cli {

std::string trace_text(const std::string& path, ReportStyle style) {
  const Trace trace = read_trace(path);
  struct Spent {
    int64_t count = 0;
    double seconds = 0;
  };
  std::map<Kind, Spent> kinds;
  int ranks = 0;
  for (const TimelineEvent& event : trace.timeline) {
    Spent& spent = kinds[event.action.kind];
    ++spent.count;
    spent.seconds += event.end_s - event.start_s;
    ranks = std::max(ranks, event.rank + 1);
  }
  Lines lines(style.columns);
  lines.add("title", trace.title);
  lines.add("step", fmt::format("{} on {}", format_seconds(makespan_s(trace.timeline)),
                                format_number(ranks, "rank")));
  Table table({"<action", "count", "mean time", "of all ranks"});
  for (const auto& [kind, spent] : kinds) {
    table.row({std::string(name(kind)), fmt::to_string(spent.count),
               format_seconds(spent.seconds / double(spent.count)), format_seconds(spent.seconds)});
  }
  return fmt::format("{}\n\n{}\n{}", path, lines.text(), table.text(style));
}

std::string program_text(const std::string& path, ReportStyle style) {
  const Program program = parse_csv(read_file(path), path);
  Table table({"rank", "actions"});
  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    table.row({fmt::to_string(rank), fmt::to_string(program.ranks[rank].size())});
  return fmt::format(
      "{}\n\n{}\n{}", path,
      labelled("program", fmt::format("{}, {}, {}", format_number(program.rank_count(), "rank"),
                                      format_number(program.stage_count(), "stage"),
                                      format_number(program.microbatches, "microbatch"))),
      table.text(style));
}

std::string safetensors_text(const std::string& path, ReportStyle style) {
  const SafetensorsFile file(path);
  Table table({"<tensor", "<type", "<shape", "bytes"});
  int64_t bytes = 0;
  for (const auto& [tensor, entry] : file.entries()) {
    bytes += entry.bytes();
    table.row({tensor, std::string(name(entry.dtype)),
               fmt::format("[{}]", fmt::join(entry.shape, ", ")), format_bytes(entry.bytes())});
  }
  return fmt::format(
      "{}\n\n{}\n{}", path,
      labelled("tensors", fmt::format("{}, {}", file.entries().size(), format_bytes(bytes))),
      table.text(style));
}

}  // namespace penstock::cli
