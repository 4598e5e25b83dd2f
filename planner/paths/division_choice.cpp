#include "planner/paths/division_choice.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

namespace {

/// Numbers of a mixture that are nearer to a whole one than this are whole.
constexpr double whole_within = 1e-4;
/// Numbers of a box that are tried, and how often each in all.
constexpr size_t most_tried = 10;
constexpr int reliable = 4;
/// Relative: no rise is worth nothing, so that the other part's counts.
constexpr double least_rise = 1e-6;

}  // namespace

DivisionChoice::DivisionChoice(int ranks, int stages)
    : ranks_(static_cast<size_t>(ranks)), stages_(static_cast<size_t>(stages)) {}

std::vector<DivisionChoice::Open> DivisionChoice::open(const std::vector<double>& units,
                                                       Division::Of of,
                                                       std::vector<Rises>& rises) const {
  std::vector<Open> open;
  for (size_t i = 0; i < units.size(); ++i) {
    const double last = std::floor(units[i]), part = units[i] - last;
    if (part < whole_within || part > 1 - whole_within) continue;
    open.push_back(
        {{of, static_cast<int>(i), static_cast<int>(last)}, {part, 1 - part}, &rises[i], rises[i]});
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

/// The product of both rises, for the smaller one counts most.
double DivisionChoice::worth(const Open& open, const Rises& mean) const {
  const Rises& known = open.expected.tried > 0 ? open.expected : mean;
  double worth = 1;
  for (const int part : {0, 1}) {
    const double rise_s = known.tried > 0 ? known.seconds[part] / known.tried : 1.0;
    worth *= std::max(rise_s * open.parts[part], least_rise);
  }
  return worth;
}

void DivisionChoice::try_out(Open& open, PathGame& game, double solved_s, double most_s) {
  open.expected = {.tried = 1};
  for (const int part : {0, 1}) {
    const double part_s = std::min(game.estimate(open.division, part == 1), most_s);
    open.expected.seconds[part] = std::max(0.0, part_s - solved_s) / open.parts[part];
    open.rises->seconds[part] += open.expected.seconds[part];
    ++estimated_;
  }
  ++open.rises->tried;
}

std::optional<Division> DivisionChoice::choose(const Means& means, PathGame& game, double most_s) {
  std::vector<Open> open = this->open(means.ranks, Division::Of::ranks, ranks_);
  if (open.empty()) open = this->open(means.stages, Division::Of::stages, stages_);
  if (open.empty()) return std::nullopt;
  const double solved_s = game.seconds();
  most_s = std::min(most_s, 2 * solved_s);
  const Rises mean = this->mean();
  const auto most_worth = [&](const Open& a, const Open& b) {
    return worth(a, mean) > worth(b, mean);
  };
  std::ranges::stable_sort(open, most_worth);
  open.resize(std::min(open.size(), most_tried));
  for (Open& one : open)
    if (one.rises->tried < reliable) try_out(one, game, solved_s, most_s);
  return std::ranges::min(open, most_worth).division;
}

}  // namespace penstock
