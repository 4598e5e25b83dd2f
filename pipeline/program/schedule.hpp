// A schedule's entry: what is true of it in closed form, and its generator of programs. Each entry
// has a file of its own in pipeline/program/schedules/, under a picture of its grid; nothing
// elsewhere knows a schedule by name.
//
// Tests compare every fact with the generated programs and their simulation.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/program/program.hpp"

namespace penstock {

class RankWriter;

struct ScheduleShape {
  int ranks = 1;
  int stages_per_rank = 1;
  int microbatches = 1;
};

/// Seconds that each stage takes for one microbatch; its whole backward takes I and W together.
struct StageTimes {
  double forward_s, input_s, weight_s;
  double whole_s() const { return forward_s + input_s + weight_s; }
  bool equal() const { return forward_s == input_s && input_s == weight_s; }
};

/// How stages lie on ranks: 0 1 2 0 1 2, or down the ranks and up again, 0 1 2 2 1 0.
enum class StagePlacement { loop, v };

struct Schedule {
  std::string_view name;         // as in a plan: `1f1b`
  std::string_view description;  // one line for people
  StagePlacement placement = StagePlacement::loop;
  int stages_per_rank = 0;      // that it always runs; 0: any number
  bool split_backward = false;  // has I and W, beside B or instead of it
  /// Rank r runs held(r) forwards, then B and F in turn, then the remaining B, each in the order of
  /// microbatches; later ranks hold no more than earlier ones.
  bool alternates = false;
  /// Appends the compute actions of one rank, of a shape that the schedule runs.
  void (*write)(const ScheduleShape&, int rank, RankWriter&);
  /// Microbatches, summed over its stages, that a rank holds when it holds most: from F to the end
  /// of B or W.
  int (*held)(const ScheduleShape&, int rank);
  /// Seconds of a step in which a rank of equal stages with free transfers is idle; absent where no
  /// closed form is known.
  std::optional<double> (*idle_s)(const ScheduleShape&, const StageTimes&);
  /// Why it cannot run a shape.
  struct Refusal {
    std::string problem, cure;
  };
  /// Refusal of a number of microbatches; null: it runs any.
  std::optional<Refusal> (*microbatches)(const ScheduleShape&) = nullptr;
  /// Names under which other tools run the same schedule; "" where one has none.
  struct ToolNames {
    std::string_view torch, megatron, deepspeed;
  } tools = {};

  /// Absent for a shape that it runs; else the cure names the nearest one.
  std::optional<Refusal> refusal(const ScheduleShape& shape) const;
  /// Compute actions only. Throws InputError for a shape that it does not run.
  Program generate(const ScheduleShape& shape) const;
};

/// The schedule that is made for a plan's own costs (simulator/adaptive/adaptive.hpp); not in the
/// table.
inline constexpr std::string_view adaptive_schedule = "adaptive";

/// All schedules, in the order in which they are listed to people.
const std::vector<Schedule>& schedules();
/// Null where there is none of that name, as for `adaptive`.
const Schedule* schedule_named(std::string_view name);
/// Throws InputError, place `place`, suggesting the nearest name; for `adaptive` as well, which
/// needs costs.
const Schedule& find_schedule(std::string_view name, std::string_view place);

/// Is there such a schedule, `adaptive` included? Throws like find_schedule.
void check_schedule(std::string_view name, std::string_view place);

extern const Schedule gpipe, one_f_one_b, looped_bfs, interleaved_1f1b, interleaved_zb, zb_h1,
    zb_h2, zbv, dualpipev;

/// A program without actions whose stages are placed.
Program empty_program(StagePlacement placement, const ScheduleShape& shape);

/// The forwards of a program alone: inference.
Program forward_only(const Program& program);

}  // namespace penstock
