#include "planner/paths/division_choice.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

namespace {

/// Numbers of a mixture that are nearer to a whole one than this are whole.
constexpr double whole_within = 1e-4;
/// Numbers of a box that are tried, how often each in all, and by how many it is divided at once.
constexpr size_t most_tried = 10;
constexpr int reliable = 4;
constexpr size_t most_divisions = 3;
/// In a stage of fewer units one more matters as much as in a rank.
constexpr int small_stage = 2;
/// Relative: no rise is worth nothing, so that the other part's counts.
constexpr double least_rise = 1e-6;
constexpr double rise_rounding = 1e-9;

}  // namespace

DivisionChoice::DivisionChoice(int ranks, int stages)
    : ranks_(static_cast<size_t>(ranks)), stages_(static_cast<size_t>(stages)) {}

std::vector<DivisionChoice::Open> DivisionChoice::open(const std::vector<double>& units,
                                                       Division::Of of) const {
  std::vector<Open> open;
  for (size_t i = 0; i < units.size(); ++i) {
    const double last = std::floor(units[i]), part = units[i] - last;
    if (part < whole_within || part > 1 - whole_within) continue;
    open.push_back(
        {{of, static_cast<int>(i), static_cast<int>(last)}, {part, 1 - part}, rises(of)[i]});
  }
  return open;
}

/// Over all numbers that were tried.
DivisionChoice::Rises DivisionChoice::mean() const {
  Rises mean;
  for (const auto* of : {&ranks_, &stages_})
    for (const Rises& one : *of) {
      if (one.tried == 0) continue;
      for (const int part : {0, 1}) mean.seconds[part] += one.seconds[part] / one.tried;
      ++mean.tried;
    }
  return mean;
}

DivisionChoice::Worth DivisionChoice::worth(const Open& open, const Rises& mean,
                                            double room_s) const {
  const bool own = open.expected.tried > 0;
  const Rises& known = own ? open.expected : mean;
  Worth worth;
  for (const int part : {0, 1}) {
    const double unit_s = known.tried > 0 ? known.seconds[part] / known.tried : 1.0;
    const double rise_s = unit_s * open.parts[part];
    worth.closed += own && rise_s >= room_s * (1 - rise_rounding);
    worth.rises *= std::max(rise_s, least_rise);
  }
  return worth;
}

DivisionChoice::Tried DivisionChoice::try_out(const Open& open, PathGame& game, double solved_s,
                                              double most_s) const {
  Tried tried{open.division.of, open.division.number, {}};
  for (const int part : {0, 1}) {
    const double part_s = std::min(game.estimate(open.division, part == 1), most_s);
    tried.seconds[part] = std::max(0.0, part_s - solved_s) / open.parts[part];
  }
  return tried;
}

DivisionChoice::Choice DivisionChoice::choose(const Means& means, PathGame& game,
                                              double most_s) const {
  Choice choice;
  std::vector<Open> open = this->open(means.ranks, Division::Of::ranks);
  const bool ranks_are_whole = open.empty();
  for (const Open& stage : this->open(means.stages, Division::Of::stages)) {
    const bool matters = game.recompute() || stage.division.last < small_stage;
    if (ranks_are_whole ||
        (matters && means.of_known_rank[static_cast<size_t>(stage.division.number)]))
      open.push_back(stage);
  }
  if (open.empty()) return choice;
  const double solved_s = game.seconds();
  most_s = std::min(most_s, 2 * solved_s);
  const double room_s = most_s - solved_s;
  const Rises mean = this->mean();
  const auto most_worth = [&](const Open& a, const Open& b) {
    return worth(a, mean, room_s) > worth(b, mean, room_s);
  };
  std::ranges::stable_sort(open, most_worth);
  open.resize(std::min(open.size(), most_tried));
  for (Open& one : open) {
    if (one.expected.tried >= reliable) continue;
    const Tried& tried = choice.tried.emplace_back(try_out(one, game, solved_s, most_s));
    one.expected = {{tried.seconds[0], tried.seconds[1]}, 1};
  }
  std::ranges::stable_sort(open, most_worth);
  for (const Open& one : open) {
    const bool same = one.division.of == open.front().division.of;
    if (same && choice.divisions.size() < most_divisions) choice.divisions.push_back(one.division);
  }
  return choice;
}

void DivisionChoice::learn(const std::vector<Tried>& tried) {
  for (const Tried& one : tried) {
    auto& all = one.of == Division::Of::ranks ? ranks_ : stages_;
    Rises& rises = all[static_cast<size_t>(one.number)];
    for (const int part : {0, 1}) rises.seconds[part] += one.seconds[part];
    ++rises.tried;
  }
}

}  // namespace penstock
