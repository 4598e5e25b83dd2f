// Schedule generators: pure functions from (ranks, stages per rank, microbatches) to the compute
// actions of every rank. One file each in pipeline/schedules/, under a picture of its grid.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/program/program.hpp"

namespace penstock {

struct ScheduleShape {
  int ranks = 1;
  int stages_per_rank = 1;
  int microbatches = 1;
};

struct Schedule {
  std::string_view name;         // as in a plan: `1f1b`
  std::string_view description;  // one line for people
  bool split_backward;           // has I and W, beside B or instead of it
  int stages_per_rank;           // that it runs; 0: any number
  /// Compute actions only. Throws InputError for a shape the schedule does not allow, naming the
  /// nearest one that it does.
  Program (*generate)(const ScheduleShape&);
};

/// The schedule that is made for a plan's own costs (simulator/adaptive/adaptive.hpp); not in the
/// table.
inline constexpr std::string_view adaptive_schedule = "adaptive";

/// All schedules, in the order in which they are listed to people.
const std::vector<Schedule>& schedules();
/// Throws InputError, place `place`, suggesting the nearest name; for `adaptive` as well, which
/// needs costs.
const Schedule& find_schedule(std::string_view name, std::string_view place);

/// Is there such a schedule, `adaptive` included? Throws like find_schedule.
void check_schedule(std::string_view name, std::string_view place);

Program gpipe(const ScheduleShape& shape);
Program one_f_one_b(const ScheduleShape& shape);
Program looped_bfs(const ScheduleShape& shape);
Program interleaved_1f1b(const ScheduleShape& shape);
Program interleaved_zb(const ScheduleShape& shape);
Program zb_h1(const ScheduleShape& shape);
Program zb_h2(const ScheduleShape& shape);
Program zbv(const ScheduleShape& shape);
Program dualpipev(const ScheduleShape& shape);

/// The forwards of a program alone: inference.
Program forward_only(const Program& program);

}  // namespace penstock
