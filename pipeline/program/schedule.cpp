// Looking up schedules.
#include "pipeline/program/schedule.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace penstock {

const Schedule* schedule_named(std::string_view name) {
  const std::vector<Schedule>& table = schedules();
  const auto found = std::ranges::find(table, name, &Schedule::name);
  return found == table.end() ? nullptr : &*found;
}

const Schedule& find_schedule(std::string_view name, std::string_view place) {
  if (const Schedule* found = schedule_named(name)) return *found;
  std::vector<std::string> names;
  std::string listed;
  for (const Schedule& schedule : schedules()) {
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
