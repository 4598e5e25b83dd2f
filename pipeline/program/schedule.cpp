// The table of schedules.
#include "pipeline/program/schedule.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace penstock {

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule> table = {
      {"gpipe", "all forwards, then all backwards; holds every microbatch", false, 1, gpipe},
      {"1f1b", "one forward, one backward; holds at most as many microbatches as ranks", false, 1,
       one_f_one_b},
      {"looped-bfs", "GPipe with several stages per rank, one after the other", false, 0,
       looped_bfs},
      {"interleaved-1f1b", "1F1B with several stages per rank in turn: a shorter ramp", false, 0,
       interleaved_1f1b},
      {"interleaved-zb", "the same with I and W apart: W fills the gaps", true, 0, interleaved_zb},
      {"zb-h1", "I and W apart at the memory of 1F1B: a third of its bubble", true, 1, zb_h1},
      {"zb-h2", "the same at twice the memory: hardly a bubble", true, 1, zb_h2},
      {"zbv", "two stages per rank laid out as a V, I and W apart: no bubble for equal times", true,
       2, zbv},
      {"dualpipev", "the same V, each forward beside a backward, transfers overlapped", true, 2,
       dualpipev},
  };
  return table;
}

const Schedule& find_schedule(std::string_view name, std::string_view place) {
  const std::vector<Schedule>& table = schedules();
  const auto found = std::ranges::find(table, name, &Schedule::name);
  if (found != table.end()) return *found;
  std::vector<std::string> names;
  std::string listed;
  for (const Schedule& schedule : table) {
    names.emplace_back(schedule.name);
    listed.append(listed.empty() ? "" : ", ").append(schedule.name);
  }
  names.emplace_back(adaptive_schedule);
  listed.append(", ").append(adaptive_schedule);
  if (name == adaptive_schedule) {
    throw InputError(
        place, "schedule adaptive is made for the costs of a profile, which are not known here",
        "Choose another schedule, or give the plan a profile.");
  }
  const std::string suggestion = did_you_mean(name, names);
  throw InputError(place, "there is no schedule `" + std::string(name) + "`",
                   (suggestion.empty() ? "" : suggestion + " ") + "Schedules: " + listed + ".");
}

void check_schedule(std::string_view name, std::string_view place) {
  if (name != adaptive_schedule) find_schedule(name, place);
}

Program forward_only(const Program& program) {
  Program result;
  result.rank_of_stage = program.rank_of_stage;
  result.microbatches = program.microbatches;
  for (const std::vector<Action>& actions : program.ranks) {
    std::vector<Action>& kept = result.ranks.emplace_back();
    for (const Action& action : actions) {
      const Action forward = action.kind == Kind::overlap ? forward_part(action) : action;
      const bool of_forward = forward.kind == Kind::forward || forward.kind == Kind::send_forward ||
                              forward.kind == Kind::recv_forward;
      if (of_forward) kept.push_back(forward);
    }
  }
  return result;
}

}  // namespace penstock
