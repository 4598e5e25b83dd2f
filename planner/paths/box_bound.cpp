#include "planner/paths/box_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/paths/least_split.hpp"

namespace penstock {

namespace {

/// Relative: as near_enough, for a search does not look for less.
constexpr double sharp_enough = 1e-4;
constexpr int max_rounds = 200, patience = 4;
/// Relative: paths of the mixture that are shorter by no more are kept for the boxes inside.
constexpr double kept_within = 0.005;
/// So many paths answer a mixture.
constexpr size_t most_paths = 4;
/// Relative: a box whose best known mixture takes so little more than the bound is divided instead.
constexpr double near_center = 1e-3;
/// The share of the optimum of what is known in the mixture that paths answer.
constexpr double of_optimum = 0.2;
/// Relative: bounds are left this much room where they leave out splits.
constexpr double price_rounding = 1e-9;

}  // namespace

/// One box's double oracle.
class BoxBound::Search {
 public:
  Search(const ProgramPaths& paths, const SplitBox& box, const Aim& aim)
      : paths_(paths),
        times_(paths.times()),
        box_(box),
        aim_(aim),
        prices_(box.ranks.low.size(), 0.0),
        mixed_(times_.size(), 0.0) {}

  Bound run(const Known& known, DivisionChoice& choice) {
    begin(known);
    int idle = 0;
    for (result_.rounds = 1; result_.rounds < max_rounds && idle < patience; ++result_.rounds) {
      game_->solve();
      const double before_s = result_.seconds, center_before_s = center_s_;
      std::vector<int> begins;
      const bool below = answer_paths(begins);
      if (result_.seconds >= aim_.enough_s) break;
      bool more = answer_splits();
      for (size_t stage = 1; below && stage < stages(); ++stage)
        more = add_place(stage, begins[stage]) || more;
      if (!more || center_s_ <= result_.seconds * (1 + near_center)) break;
      const bool better = result_.seconds > before_s * (1 + sharp_enough) ||
                          center_s_ < center_before_s * (1 - sharp_enough);
      idle = better ? 0 : idle + 1;
    }
    conclude(choice);
    return std::move(result_);
  }

 private:
  size_t stages() const { return static_cast<size_t>(times_.stages()); }

  /// The game of what is known.
  void begin(const Known& known) {
    result_.known.paths = known.paths;
    const Times middle = times_.of(this->middle());
    if (known.paths.empty())
      for (ProgramPaths::Path& path : paths_.longest(middle))
        result_.known.paths.push_back(std::make_shared<Times>(std::move(path.weights)));
    const double scale_s = weighted_sum(*result_.known.paths[0], middle);
    game_ = std::make_unique<PathGame>(box_, times_.rank_of_stage(), times_.units(), scale_s);
    for (const auto& path : result_.known.paths) game_->add_path(times_.of_ends(*path), {});
    begin_places(known);
  }

  /// The bounds of the box, and what is known within them; the solver starts from where it ended.
  void begin_places(const Known& known) {
    const bool any = !known.places.empty();
    PathGame::Basis basis{known.basis.limits, known.basis.paths, {}};
    size_t first = 0;  // of the stage's known places among all
    const auto add = [&](size_t stage, int unit, size_t number) {
      if (add_place(stage, unit) && any) basis.places.push_back(known.basis.places[first + number]);
    };
    result_.known.places.resize(stages());
    for (size_t stage = 1; stage < stages(); ++stage) {
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

  std::vector<std::vector<SplitTimes::Place>> middle() const {
    std::vector<std::vector<SplitTimes::Place>> middle;
    for (size_t stage = 0; stage < stages(); ++stage)
      middle.push_back({{box_.begins.low[stage], 0.5}, {box_.begins.high[stage], 0.5}});
    return middle;
  }

  bool add_place(size_t stage, int unit) {
    std::vector<int>& places = result_.known.places[stage];
    if (std::ranges::find(places, unit) != places.end()) return false;
    places.push_back(unit);
    all_places_.push_back({stage, unit});
    std::vector<double> values;
    for (const auto& path : result_.known.paths)
      values.push_back(times_.of_begin(*path, static_cast<int>(stage), unit));
    game_->add_place(static_cast<int>(stage), unit, values);
    return true;
  }

  /// The split that is least under the mixture of paths: the bound. Its places, where they are new.
  bool answer_paths(std::vector<int>& begins) {
    const std::vector<double> weights = game_->path_weights();
    std::vector<double> prices = game_->rank_prices();
    Times mixed(times_.size(), 0.0);
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      const Times& path = *result_.known.paths[i];
      for (size_t t = 0; t < mixed.size(); ++t) mixed[t] += weights[i] * path[t];
    }
    double owed_s = 0;
    for (size_t r = 0; r < prices.size(); ++r)
      owed_s += prices[r] * (prices[r] > 0 ? box_.ranks.low[r] : box_.ranks.high[r]);
    for (int stage = 0; stage < times_.stages(); ++stage)
      mixed[times_.at(SplitTime::units, stage)] -=
          prices[static_cast<size_t>(times_.rank_of_stage()[static_cast<size_t>(stage)])];
    const LeastSplit least(times_, mixed, box_);
    const double bound_s = least.sum() + owed_s;
    begins = least.begins();
    if (bound_s > result_.seconds) {
      result_.seconds = bound_s;
      owed_s_ = owed_s;
      mixed_ = std::move(mixed);
      prices_ = std::move(prices);
    }
    return bound_s < game_->seconds() * (1 - sharp_enough);
  }

  std::vector<std::vector<SplitTimes::Place>> mixture() const {
    std::vector<std::vector<SplitTimes::Place>> mixture(stages());
    mixture[0] = {{0, 1.0}};
    const std::vector<double> weights = game_->place_weights();
    for (size_t i = 0; i < weights.size(); ++i)
      if (weights[i] > 0)
        mixture[all_places_[i].first].push_back({all_places_[i].second, weights[i]});
    return mixture;
  }

  /// The paths that are longest under a mixture near the center, of those that are longer under the
  /// mixture of what is known than any known one; where there are none, under that mixture itself.
  bool answer_splits() {
    const double longer_s = game_->seconds() * (1 + sharp_enough);
    const Times optimum = times_.of(mixture());
    if (center_.empty()) center_ = optimum;
    for (const double share : {of_optimum, 1.0}) {
      Times mixed(times_.size());
      for (size_t i = 0; i < mixed.size(); ++i)
        mixed[i] = share * optimum[i] + (1 - share) * center_[i];
      std::vector<ProgramPaths::Path> paths = paths_.longest(mixed);
      if (paths.front().seconds < center_s_) {
        center_s_ = paths.front().seconds;
        center_ = std::move(mixed);
      }
      if (center_s_ <= longer_s) return false;
      std::erase_if(paths, [&](const ProgramPaths::Path& path) {
        return weighted_sum(path.weights, optimum) <= longer_s;
      });
      paths.resize(std::min(paths.size(), most_paths));
      for (ProgramPaths::Path& path : paths)
        add_path(std::make_shared<Times>(std::move(path.weights)));
      if (!paths.empty()) return true;
    }
    return false;
  }

  void add_path(std::shared_ptr<const Times> path) {
    std::vector<double> seconds;
    for (const auto& [stage, unit] : all_places_)
      seconds.push_back(times_.of_begin(*path, static_cast<int>(stage), unit));
    game_->add_path(times_.of_ends(*path), seconds);
    result_.known.paths.push_back(std::move(path));
  }

  /// Leaves out what takes longer under the mixture that the bound is of; all, where that does.
  void narrow() {
    const double most_s = aim_.most_s * (1 + price_rounding);
    if (result_.seconds > most_s) return;
    SplitBox box = box_;
    for (size_t r = 0; r < prices_.size(); ++r) {
      const double more = std::floor((most_s - result_.seconds) / std::abs(prices_[r]));
      if (!(more < times_.units())) continue;
      if (prices_[r] > 0)
        box.ranks.high[r] = std::min(box.ranks.high[r], box.ranks.low[r] + static_cast<int>(more));
      else
        box.ranks.low[r] = std::max(box.ranks.low[r], box.ranks.high[r] - static_cast<int>(more));
    }
    LeastSplit(times_, mixed_, box_).narrow(box, most_s - owed_s_);
    if (tighten(box, times_.rank_of_stage(), times_.units())) result_.box = std::move(box);
  }

  DivisionChoice::Means means(const Times& mixed) const {
    DivisionChoice::Means means{std::vector<double>(prices_.size(), 0.0), {}};
    for (int stage = 0; stage < times_.stages(); ++stage) {
      const double units = mixed[times_.at(SplitTime::units, stage)];
      const auto rank = static_cast<size_t>(times_.rank_of_stage()[static_cast<size_t>(stage)]);
      means.ranks[rank] += units;
      means.stages.push_back(units);
    }
    return means;
  }

  /// Keeps the paths that matter, and how the solution stands to all that is known.
  void remember() {
    const std::vector<double> weights = game_->path_weights();
    const double near_s = game_->seconds() * (1 - kept_within);
    PathGame::Basis basis = game_->basis();
    Known& known = result_.known;
    std::vector<std::shared_ptr<const Times>> kept;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0 && weighted_sum(*known.paths[i], center_) <= near_s) continue;
      kept.push_back(known.paths[i]);
      known.basis.paths.push_back(basis.paths[i]);
    }
    known.paths = std::move(kept);
    known.basis.limits = std::move(basis.limits);
    std::vector<std::vector<char>> of_stages(stages());
    for (size_t i = 0; i < all_places_.size(); ++i)
      of_stages[all_places_[i].first].push_back(basis.places[i]);
    for (const std::vector<char>& of : of_stages)
      known.basis.places.insert(known.basis.places.end(), of.begin(), of.end());
  }

  void conclude(DivisionChoice& choice) {
    narrow();
    game_->solve();
    const Times optimum = times_.of(mixture());
    if (center_.empty()) center_ = optimum;
    const DivisionChoice::Means means = this->means(optimum);
    result_.begins.assign(stages(), 0.0);
    for (size_t s = 1; s < stages(); ++s)
      result_.begins[s] = result_.begins[s - 1] + means.stages[s - 1];
    remember();
    if (!result_.box || result_.seconds >= aim_.enough_s) return;
    const int before = choice.estimated();
    result_.division = choice.choose(means, *game_, aim_.enough_s);
    result_.estimates = choice.estimated() - before;
  }

  const ProgramPaths& paths_;
  const SplitTimes& times_;
  const SplitBox& box_;
  const Aim aim_;
  std::unique_ptr<PathGame> game_;
  std::vector<std::pair<size_t, int>> all_places_;  // stage and unit, as the game has them
  Times center_;                                    // of the mixture with the shortest longest path
  double center_s_ = std::numeric_limits<double>::infinity();  // that path, once it was followed
  /// The best bound's: prices of ranks, what they owe, and the weights that it is the least of.
  std::vector<double> prices_;
  double owed_s_ = 0;
  Times mixed_;
  Bound result_;
};

BoxBound::Bound BoxBound::bound(SplitBox box, const Known& known, const Aim& aim,
                                DivisionChoice& choice) const {
  const SplitTimes& times = paths_->times();
  if (!tighten(box, times.rank_of_stage(), times.units()))
    return {.seconds = std::numeric_limits<double>::infinity()};
  if (!box.begins.single()) return Search(*paths_, box, aim).run(known, choice);
  Bound bound{.seconds = paths_->split_s(box.begins.low)};
  bound.begins.assign(box.begins.low.begin(), box.begins.low.end());
  bound.box = std::move(box);
  return bound;
}

}  // namespace penstock
