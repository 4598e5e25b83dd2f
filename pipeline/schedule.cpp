// The table of schedules.
#include "pipeline/schedule.hpp"

#include <algorithm>

#include "graph/error.hpp"

namespace penstock {

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule> table = {
      {"gpipe", "all forwards, then all backwards; holds every microbatch", false, gpipe},
      {"1f1b", "one forward, one backward; holds at most as many microbatches as ranks", false,
       one_f_one_b},
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
  const std::string suggestion = did_you_mean(name, names);
  throw InputError(place, "there is no schedule `" + std::string(name) + "`",
                   (suggestion.empty() ? "" : suggestion + " ") + "Schedules: " + listed + ".");
}

Program forward_only(const Program& program) {
  Program result;
  result.rank_of_stage = program.rank_of_stage;
  result.microbatches = program.microbatches;
  for (const std::vector<Action>& actions : program.ranks) {
    std::vector<Action>& kept = result.ranks.emplace_back();
    for (const Action& action : actions) {
      const Action& forward = action.kind == Kind::overlap ? action.parts.front() : action;
      const bool of_forward = forward.kind == Kind::forward || forward.kind == Kind::send_forward ||
                              forward.kind == Kind::recv_forward;
      if (of_forward) kept.push_back(forward);
    }
  }
  return result;
}

}  // namespace penstock
