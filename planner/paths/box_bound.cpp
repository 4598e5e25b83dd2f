#include "planner/paths/box_bound.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "planner/paths/path_game.hpp"

namespace penstock {

namespace {

/// Relative: as near_enough, for a search does not look for less.
constexpr double sharp_enough = 1e-4;
constexpr int max_rounds = 200, patience = 4;
constexpr double kept_within = 0.02;
/// Relative: a box whose best known mixture takes so little more than the bound is divided instead.
constexpr double near_center = 1e-3;
/// The share of the optimum of what is known in the mixture that paths answer.
constexpr double of_optimum = 0.2;
/// In units: a mixture that misses a bound of the box by less lies in it.
constexpr double inside_within = 1e-4;

bool empty(const std::vector<int>& low, const std::vector<int>& high) {
  return !std::equal(low.begin(), low.end(), high.begin(), std::less_equal());
}

bool within(const std::vector<double>& numbers, const std::vector<int>& low,
            const std::vector<int>& high) {
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] < low[i] - inside_within || numbers[i] > high[i] + inside_within) return false;
  return true;
}

BoxBound::Bound nothing() { return {.seconds = std::numeric_limits<double>::infinity()}; }

}  // namespace

RankBox BoxBound::all() const {
  const auto ranks = static_cast<size_t>(paths_->ranks());
  const SplitTimes& times = paths_->times();
  return {times.all(), std::vector<int>(ranks, 0), std::vector<int>(ranks, times.units())};
}

/// One box's double oracle.
class BoxBound::Search {
 public:
  Search(const ProgramPaths& paths, const RankBox& box, double enough_s)
      : paths_(paths), times_(paths.times()), box_(box), enough_s_(enough_s) {
    for (int rank = 0; rank < paths.ranks(); ++rank) {
      const auto r = static_cast<size_t>(rank);
      if (box.min_units[r] > 0) limit(rank, 1, box.min_units[r]);
      if (box.max_units[r] < times_.units()) limit(rank, -1, -box.max_units[r]);
    }
  }

  Bound run(const Known& known) {
    if (!begin(known)) return nothing();
    int idle = 0;
    for (result_.rounds = 1; result_.rounds < max_rounds && idle < patience; ++result_.rounds) {
      game_->solve();
      const double before_s = result_.seconds, center_before_s = center_s_;
      std::vector<int> begins;
      const bool below = answer_paths(begins);
      if (result_.seconds >= enough_s_) break;
      bool more = answer_splits();
      for (size_t stage = 1; below && stage < stages(); ++stage)
        more = add_place(stage, begins[stage]) || more;
      if (!more || center_s_ <= result_.seconds * (1 + near_center)) break;
      const bool better = result_.seconds > before_s * (1 + sharp_enough) ||
                          center_s_ < center_before_s * (1 - sharp_enough);
      idle = better ? 0 : idle + 1;
    }
    conclude();
    return std::move(result_);
  }

 private:
  /// sign x (units of the rank) >= at_least.
  void limit(int rank, double sign, double at_least) {
    Times weights(times_.size(), 0.0);
    for (int stage = 0; stage < times_.stages(); ++stage)
      if (times_.rank_of_stage()[static_cast<size_t>(stage)] == rank)
        weights[times_.at(SplitTime::units, stage)] = sign;
    limits_.push_back(std::move(weights));
    at_least_.push_back(at_least);
  }

  size_t stages() const { return static_cast<size_t>(times_.stages()); }

  /// The game of what is known; false: the box holds no split.
  bool begin(const Known& known) {
    if (times_.least(Times(times_.size(), 0.0), box_.begins).begins.empty()) return false;
    result_.known.paths = known.paths;
    center_ = known.center;
    if (known.paths.empty()) {
      center_ = times_.of(even());
      for (ProgramPaths::Path& path : paths_.longest(center_))
        result_.known.paths.push_back(std::make_shared<Times>(std::move(path.weights)));
    }
    const double scale_s = weighted_sum(*result_.known.paths[0], center_);
    std::vector<double> at_least = at_least_;
    for (size_t i = 0; i < limits_.size(); ++i) at_least[i] -= times_.of_ends(limits_[i]);
    game_ = std::make_unique<PathGame>(times_.stages() - 1, scale_s, at_least);
    for (size_t i = 0; i < result_.known.paths.size(); ++i)
      game_->add_path(times_.of_ends(*result_.known.paths[i]), {});
    result_.known.places.resize(stages());
    for (size_t stage = 1; stage < stages(); ++stage) {
      add_place(stage, box_.begins.low[stage]);
      add_place(stage, box_.begins.high[stage]);
      if (known.places.empty()) continue;
      for (const int unit : known.places[stage])
        if (unit > box_.begins.low[stage] && unit < box_.begins.high[stage]) add_place(stage, unit);
    }
    return true;
  }

  /// Stages of about as many units each, where the box lets them.
  std::vector<int> even() const {
    std::vector<int> begins(stages(), 0);
    for (size_t s = 1; s < stages(); ++s) {
      const int begin = static_cast<int>(s) * times_.units() / times_.stages();
      begins[s] =
          std::max(begins[s - 1] + 1, std::clamp(begin, box_.begins.low[s], box_.begins.high[s]));
    }
    return begins;
  }

  bool add_place(size_t stage, int unit) {
    std::vector<int>& places = result_.known.places[stage];
    if (std::ranges::find(places, unit) != places.end()) return false;
    places.push_back(unit);
    all_places_.push_back({stage, unit});
    std::vector<double> values;
    const auto add = [&](const Times& weights) {
      values.push_back(times_.of_begin(weights, static_cast<int>(stage), unit, unit)[0]);
    };
    for (const Times& weights : limits_) add(weights);
    for (const auto& path : result_.known.paths) add(*path);
    game_->add_place(static_cast<int>(stage) - 1, unit, values);
    return true;
  }

  /// The split that is least under the mixture of paths: the bound. Its places, where they are new.
  bool answer_paths(std::vector<int>& begins) {
    const std::vector<double> weights = game_->path_weights(), prices = game_->limit_weights();
    Times mixed(times_.size(), 0.0);
    const auto mix = [&](double weight, const Times& times) {
      for (size_t i = 0; i < mixed.size(); ++i) mixed[i] += weight * times[i];
    };
    for (size_t i = 0; i < weights.size(); ++i)
      if (weights[i] > 0) mix(weights[i], *result_.known.paths[i]);
    double owed_s = 0;
    for (size_t i = 0; i < prices.size(); ++i) {
      owed_s += prices[i] * at_least_[i];
      mix(-prices[i], limits_[i]);
    }
    SplitTimes::Least least = times_.least(mixed, box_.begins);
    result_.seconds = std::max(result_.seconds, least.sum + owed_s);
    begins = std::move(least.begins);
    return least.sum + owed_s < game_->seconds() * (1 - sharp_enough);
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
      for (ProgramPaths::Path& path : paths)
        add_path(std::make_shared<Times>(std::move(path.weights)));
      if (!paths.empty()) return true;
    }
    return false;
  }

  void add_path(std::shared_ptr<const Times> path) {
    std::vector<std::vector<double>> by_stage(stages());
    for (size_t s = 1; s < stages(); ++s)
      by_stage[s] =
          times_.of_begin(*path, static_cast<int>(s), box_.begins.low[s], box_.begins.high[s]);
    std::vector<double> seconds;
    for (const auto& [stage, unit] : all_places_)
      seconds.push_back(by_stage[stage][static_cast<size_t>(unit - box_.begins.low[stage])]);
    game_->add_path(times_.of_ends(*path), seconds);
    result_.known.paths.push_back(std::move(path));
  }

  /// Tells where the stages of a mixture begin, and how many units its ranks have.
  void describe(const Times& mixed) {
    result_.begins.assign(stages(), 0.0);
    result_.units.assign(static_cast<size_t>(paths_.ranks()), 0.0);
    for (size_t s = 0; s < stages(); ++s) {
      const double units = mixed[times_.at(SplitTime::units, static_cast<int>(s))];
      if (s + 1 < stages()) result_.begins[s + 1] = result_.begins[s] + units;
      result_.units[static_cast<size_t>(times_.rank_of_stage()[s])] += units;
    }
  }

  void conclude() {
    game_->solve();
    describe(center_);
    result_.settled = within(result_.begins, box_.begins.low, box_.begins.high) &&
                      within(result_.units, box_.min_units, box_.max_units);
    if (!result_.settled) describe(times_.of(mixture()));
    const std::vector<double> weights = game_->path_weights();
    const double near_s = game_->seconds() * (1 - kept_within);
    std::vector<std::shared_ptr<const Times>> kept;
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto& path = result_.known.paths[i];
      if (weights[i] > 0 || weighted_sum(*path, center_) > near_s) kept.push_back(path);
    }
    result_.known.paths = std::move(kept);
    result_.known.center = std::move(center_);
  }

  const ProgramPaths& paths_;
  const SplitTimes& times_;
  const RankBox& box_;
  const double enough_s_;
  std::vector<Times> limits_;     // weights of units
  std::vector<double> at_least_;  // of each
  std::unique_ptr<PathGame> game_;
  std::vector<std::pair<size_t, int>> all_places_;  // stage and unit, as the game has them
  Times center_;                                    // of the mixture with the shortest longest path
  double center_s_ = std::numeric_limits<double>::infinity();  // that path, once it was followed
  Bound result_;
};

/// The box holds one split at most.
BoxBound::Bound BoxBound::single(const RankBox& box) const {
  const SplitTimes& times = paths_->times();
  Bound bound{.units = std::vector<double>(box.min_units.size(), 0.0)};
  const Times of = times.of(box.begins.low);
  for (int stage = 0; stage < times.stages(); ++stage)
    bound.units[static_cast<size_t>(times.rank_of_stage()[static_cast<size_t>(stage)])] +=
        of[times.at(SplitTime::units, stage)];
  for (size_t rank = 0; rank < bound.units.size(); ++rank)
    if (bound.units[rank] < box.min_units[rank] || bound.units[rank] > box.max_units[rank])
      return nothing();
  bound.seconds = paths_->longest_s(of);
  bound.begins.assign(box.begins.low.begin(), box.begins.low.end());
  return bound;
}

BoxBound::Bound BoxBound::bound(const RankBox& box, const Known& known, double enough_s) const {
  if (empty(box.begins.low, box.begins.high) || empty(box.min_units, box.max_units))
    return nothing();
  if (box.begins.low == box.begins.high) return single(box);
  return Search(*paths_, box, enough_s).run(known);
}

}  // namespace penstock
