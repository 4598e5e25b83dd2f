#include "simulator/explain/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/quantity.hpp"

namespace penstock {

namespace {

constexpr int idle_cell = -1;

/// One row: which event fills each column, by index in the timeline, or idle.
using Row = std::vector<int>;

bool takes_time(const TimelineEvent& event) {
  return !is_send(event.action.kind) && !is_receive(event.action.kind) &&
         event.end_s > event.start_s;
}

/// Each column shows the event that covers most of it, or idle where ranks idle longer than they
/// work.
class Grid {
 public:
  Grid(const Timeline& timeline, int ranks, int width, double end_s)
      : rows_(static_cast<size_t>(ranks), Row(static_cast<size_t>(width), idle_cell)),
        most_(rows_.size(), std::vector<double>(static_cast<size_t>(width), 0)),
        sum_(most_),
        column_s_(end_s / width) {
    for (size_t i = 0; i < timeline.size(); ++i) {
      if (takes_time(timeline[i])) add(timeline[i], static_cast<int>(i));
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      for (size_t c = 0; c < rows_[r].size(); ++c) {
        if (sum_[r][c] < column_s_ / 2) rows_[r][c] = idle_cell;
      }
    }
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  void add(const TimelineEvent& event, int index) {
    const auto r = static_cast<size_t>(event.rank);
    const auto columns = rows_[r].size();
    const auto first = static_cast<size_t>(event.start_s / column_s_);
    for (size_t c = first; c < columns && static_cast<double>(c) * column_s_ < event.end_s; ++c) {
      const double covered = std::min(event.end_s, static_cast<double>(c + 1) * column_s_) -
                             std::max(event.start_s, static_cast<double>(c) * column_s_);
      sum_[r][c] += covered;
      if (covered > most_[r][c]) {
        most_[r][c] = covered;
        rows_[r][c] = index;
      }
    }
  }

  std::vector<Row> rows_;
  std::vector<std::vector<double>> most_, sum_;
  double column_s_;
};

std::string symbol_of(Kind kind) {
  switch (kind) {
    case Kind::overlap: return "X";
    case Kind::optimizer: return "O";
    case Kind::reduce_grad: return "R";
    default: return std::string(name(kind));
  }
}

const char* colour(Kind kind) {
  switch (kind) {
    case Kind::forward: return "\x1b[97;44m";
    case Kind::backward:
    case Kind::backward_input: return "\x1b[30;48;5;208m";
    case Kind::backward_weight: return "\x1b[30;42m";
    case Kind::overlap: return "\x1b[97;45m";
    default: return "\x1b[30;47m";
  }
}

/// `F3`, or `2F3` where a rank has several stages; shorter where it does not fit.
std::string label(const Action& action, bool with_stage, size_t room) {
  const std::string kind = symbol_of(action.kind);
  std::vector<std::string> candidates;
  if (action.kind == Kind::overlap) {
    candidates = {to_string(action)};
  } else if (action.microbatch >= 0) {
    if (with_stage) candidates.push_back(to_string(action));
    candidates.push_back(fmt::format("{}{}", kind, action.microbatch));
  }
  for (const std::string& candidate : candidates) {
    if (candidate.size() <= room) return candidate;
  }
  return kind.size() <= room ? kind : kind.substr(0, room);
}

std::string draw_row(const Row& row, const Timeline& timeline, bool with_stage, bool coloured) {
  std::string line;
  for (size_t c = 0; c < row.size();) {
    const size_t first = c;
    while (c < row.size() && row[c] == row[first]) ++c;
    const size_t length = c - first;
    if (row[first] == idle_cell) {
      line +=
          coloured ? "\x1b[90m" + std::string(length, '.') + "\x1b[0m" : std::string(length, '.');
      continue;
    }
    const Action& action = timeline[static_cast<size_t>(row[first])].action;
    std::string text = label(action, with_stage, length);
    text.append(length - text.size(), coloured ? ' ' : '-');
    line += coloured ? colour(action.kind) + text + "\x1b[0m" : text;
  }
  return line;
}

/// 0 and four times below the grid, each ending at its column; those without room are left out.
std::string axis(size_t indent, int width, double end_s) {
  constexpr int ticks = 4;
  std::string line(indent + static_cast<size_t>(width), ' ');
  line[indent] = '0';
  for (int i = 1; i <= ticks; ++i) {
    const std::string text = format_seconds(end_s * i / ticks);
    const auto room = static_cast<size_t>(i < ticks ? width / ticks - 2 : width - 2);
    if (text.size() > room) continue;
    line.replace(indent + static_cast<size_t>(width * i / ticks) - text.size(), text.size(), text);
  }
  return line;
}

bool several_stages_per_rank(const Timeline& timeline, int ranks) {
  std::vector<int> stage_of_rank(static_cast<size_t>(ranks), -1);
  for (const TimelineEvent& event : timeline) {
    int& stage = stage_of_rank[static_cast<size_t>(event.rank)];
    if (stage >= 0 && stage != event.action.stage) return true;
    stage = event.action.stage;
  }
  return false;
}

}  // namespace

std::string draw(const Timeline& timeline, int ranks, const DrawOptions& options) {
  double end_s = 0;
  for (const TimelineEvent& event : timeline) {
    if (takes_time(event)) end_s = std::max(end_s, event.end_s);
  }
  if (end_s <= 0 || ranks < 1) return "";
  const int width = std::max(options.width, 8);
  const bool with_stage = several_stages_per_rank(timeline, ranks);
  const Grid grid(timeline, ranks, width, end_s);
  const size_t digits = std::to_string(ranks - 1).size();
  std::string text;
  for (int rank = 0; rank < ranks; ++rank) {
    text += fmt::format(
        "rank {:>{}} |{}|\n", rank, digits,
        draw_row(grid.rows()[static_cast<size_t>(rank)], timeline, with_stage, options.colour));
  }
  return text + axis(7 + digits, width, end_s) + "\n";
}

}  // namespace penstock
