#include "planner/paths/known_game.hpp"

#include <algorithm>

namespace penstock {

namespace {

/// Relative: paths of another mixture that are shorter by no more are kept for the boxes inside.
constexpr double kept_within = 0.005;

}  // namespace

KnownGame::KnownGame(const ProgramPaths& paths, const SplitBox& box, const Known& known)
    : times_(paths.times()), box_(box) {
  known_.paths = known.paths;
  const Times middle = this->middle();
  if (known.paths.empty())
    for (ProgramPaths::Path& path : paths.longest(middle))
      known_.paths.push_back(std::make_shared<ProgramPaths::Path>(std::move(path)));
  const double scale_s = weighted_sum(known_.paths[0]->weights, middle);
  game_ = std::make_unique<PathGame>(box_, times_.rank_of_stage(), times_.units(), scale_s);
  for (const auto& path : known_.paths) game_->add_path(times_.of_ends(path->weights), {});
  begin_places(known);
}

/// The bounds of the box, and what is known within them; the solver starts from where it ended.
void KnownGame::begin_places(const Known& known) {
  const bool any = !known.places.empty();
  PathGame::Basis basis{known.basis.limits, known.basis.paths, {}};
  size_t first = 0;  // of the stage's known places among all
  const auto add = [&](size_t stage, int unit, size_t number) {
    if (add_place(stage, unit) && any) basis.places.push_back(known.basis.places[first + number]);
  };
  known_.places.resize(static_cast<size_t>(times_.stages()));
  for (size_t stage = 1; stage < known_.places.size(); ++stage) {
    const int low = box_.begins.low[stage], high = box_.begins.high[stage];
    add(stage, low, 0);
    add(stage, high, 1);
    if (!any) continue;
    const std::vector<int>& units = known.places[stage];
    for (size_t i = 0; i < units.size(); ++i)
      if (units[i] > low && units[i] < high) add(stage, units[i], i);
    first += units.size();
  }
  if (any) game_->start(basis);
}

Times KnownGame::middle() const {
  std::vector<std::vector<SplitTimes::Place>> middle;
  for (size_t stage = 0; stage < box_.begins.low.size(); ++stage)
    middle.push_back({{box_.begins.low[stage], 0.5}, {box_.begins.high[stage], 0.5}});
  return times_.of(middle);
}

bool KnownGame::add_place(size_t stage, int unit) {
  std::vector<int>& places = known_.places[stage];
  if (std::ranges::find(places, unit) != places.end()) return false;
  places.push_back(unit);
  all_places_.push_back({stage, unit});
  std::vector<double> values;
  for (const auto& path : known_.paths)
    values.push_back(times_.of_begin(path->weights, static_cast<int>(stage), unit));
  game_->add_place(static_cast<int>(stage), unit, values);
  return true;
}

void KnownGame::add_path(ProgramPaths::Path path) {
  std::vector<double> seconds;
  for (const auto& [stage, unit] : all_places_)
    seconds.push_back(times_.of_begin(path.weights, static_cast<int>(stage), unit));
  game_->add_path(times_.of_ends(path.weights), seconds);
  known_.paths.push_back(std::make_shared<ProgramPaths::Path>(std::move(path)));
}

Times KnownGame::mixture() const {
  std::vector<std::vector<SplitTimes::Place>> mixture(known_.places.size());
  mixture[0] = {{0, 1.0}};
  const std::vector<double> weights = game_->place_weights();
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0)
      mixture[all_places_[i].first].push_back({all_places_[i].second, weights[i]});
  return times_.of(mixture);
}

KnownGame::Known KnownGame::known(const Times& other) const {
  const std::vector<double> weights = game_->path_weights();
  const double near_s = game_->seconds() * (1 - kept_within);
  PathGame::Basis basis = game_->basis();
  Known known{{}, known_.places, {std::move(basis.limits), {}, {}}};
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0 && weighted_sum(known_.paths[i]->weights, other) <= near_s) continue;
    known.paths.push_back(known_.paths[i]);
    known.basis.paths.push_back(basis.paths[i]);
  }
  std::vector<std::vector<char>> of_stages(known_.places.size());
  for (size_t i = 0; i < all_places_.size(); ++i)
    of_stages[all_places_[i].first].push_back(basis.places[i]);
  for (const std::vector<char>& of : of_stages)
    known.basis.places.insert(known.basis.places.end(), of.begin(), of.end());
  return known;
}

}  // namespace penstock
