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
/// The most work for one box, in rows and columns of the solver's steps, added up: else a single
/// large box could take all of a search's effort.
constexpr int64_t max_work = 4'000'000;
/// Rows that are far from what is known are dropped after so many rounds.
constexpr int drop_rounds = 20;
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
  Search(const ProgramPaths& paths, const SplitBox& box, const SharedUnits::Ways& ways,
         const Known& known, const Aim& aim)
      : paths_(paths),
        times_(paths.times()),
        box_(box),
        aim_(aim),
        known_(paths, box, ways, known),
        prices_(box.ranks.low.size(), 0.0),
        mixed_(times_.size(), 0.0) {}

  Bound run(const DivisionChoice& choice) {
    int idle = 0;
    for (result_.rounds = 1; result_.rounds < max_rounds && idle < patience; ++result_.rounds) {
      known_.solve();
      if (result_.rounds % drop_rounds == 0) known_.drop_far();
      const double before_s = result_.seconds, center_before_s = center_s_;
      std::vector<int> begins;
      const bool below = answer_paths(begins);
      if (result_.seconds >= aim_.enough_s) break;
      bool more = known_.holds_too_much();
      more = answer_splits() || more;
      for (size_t stage = 1; below && stage < stages(); ++stage)
        more = known_.add_place(stage, begins[stage]) || more;
      if (!more || center_s_ <= result_.seconds * (1 + near_center)) break;
      result_.more = known_.game().work() > aim_.most_work;
      if (result_.more || known_.game().work() > max_work) break;
      const bool better = result_.seconds > before_s * (1 + sharp_enough) ||
                          center_s_ < center_before_s * (1 - sharp_enough);
      idle = better ? 0 : idle + 1;
    }
    conclude(choice);
    result_.solver_work = known_.game().work();
    return std::move(result_);
  }

 private:
  size_t stages() const { return static_cast<size_t>(times_.stages()); }

  /// The split that is least under the mixture of paths: the bound. Its places, where they are new.
  bool answer_paths(std::vector<int>& begins) {
    std::vector<double> prices = known_.game().rank_prices();
    auto [mixed, held] = known_.mixed();
    std::optional<SplitMemory::Priced> priced;
    if (paths_.memory()) priced.emplace(*paths_.memory(), held);
    double owed_s = 0;
    for (size_t r = 0; r < prices.size(); ++r)
      owed_s += prices[r] * (prices[r] > 0 ? box_.ranks.low[r] : box_.ranks.high[r]);
    for (int stage = 0; stage < times_.stages(); ++stage)
      mixed[times_.at(SplitTime::units, stage)] -=
          prices[static_cast<size_t>(times_.rank_of_stage()[static_cast<size_t>(stage)])];
    const LeastSplit least(times_, mixed, box_, priced ? &*priced : nullptr);
    const double bound_s = least.sum() + owed_s;
    begins = least.begins();
    if (bound_s > result_.seconds) {
      result_.seconds = bound_s;
      owed_s_ = owed_s;
      mixed_ = std::move(mixed);
      prices_ = std::move(prices);
      priced_ = std::move(priced);
      result_.paths = known_.shares();
    }
    return bound_s < known_.game().seconds() * (1 - sharp_enough);
  }

  /// The paths that are longest under a mixture near the center, of those that are longer under the
  /// mixture of what is known than any known one; where there are none, under that mixture itself.
  bool answer_splits() {
    const double longer_s = known_.game().seconds() * (1 + sharp_enough);
    const Times optimum = known_.mixture();
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
      for (ProgramPaths::Path& path : paths) known_.add_path(std::move(path));
      if (!paths.empty()) return true;
    }
    return false;
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
    LeastSplit(times_, mixed_, box_, priced_ ? &*priced_ : nullptr).narrow(box, most_s - owed_s_);
    if (tighten(box, times_.rank_of_stage(), times_.units())) result_.box = std::move(box);
  }

  DivisionChoice::Means means(const Times& mixed) const {
    DivisionChoice::Means means{std::vector<double>(prices_.size(), 0.0), {}, {}};
    for (int stage = 0; stage < times_.stages(); ++stage) {
      const double units = mixed[times_.at(SplitTime::units, stage)];
      const auto rank = static_cast<size_t>(times_.rank_of_stage()[static_cast<size_t>(stage)]);
      means.ranks[rank] += units;
      means.stages.push_back(units);
      means.of_known_rank.push_back(box_.ranks.low[rank] == box_.ranks.high[rank]);
    }
    return means;
  }

  void conclude(const DivisionChoice& choice) {
    narrow();
    const bool closed = result_.seconds >= aim_.enough_s;
    if (!closed) known_.solve();
    const Times optimum = known_.mixture();
    if (center_.empty()) center_ = optimum;
    const DivisionChoice::Means means = this->means(optimum);
    result_.begins.assign(stages(), 0.0);
    for (size_t s = 1; s < stages(); ++s)
      result_.begins[s] = result_.begins[s - 1] + means.stages[s - 1];
    result_.known = known_.known(center_);
    if (!result_.box || closed || result_.more) return;
    result_.choice = choice.choose(means, known_.game(), aim_.enough_s);
  }

  const ProgramPaths& paths_;
  const SplitTimes& times_;
  const SplitBox& box_;
  const Aim aim_;
  KnownGame known_;
  Times center_;  // of the mixture with the shortest longest path
  double center_s_ = std::numeric_limits<double>::infinity();  // that path, once it was followed
  /// The best bound's: prices of ranks, what they owe, and the weights that it is the least of.
  std::vector<double> prices_;
  double owed_s_ = 0;
  Times mixed_;
  std::optional<SplitMemory::Priced> priced_;
  Bound result_;
};

BoxBound::Bound BoxBound::bound(SplitBox box, const Known& known, const Aim& aim,
                                const DivisionChoice& choice) const {
  const SplitTimes& times = paths_->times();
  const auto is_tight = [&] { return tighten(box, times.rank_of_stage(), times.units()); };
  const Bound none{.seconds = std::numeric_limits<double>::infinity()};
  if (!is_tight()) return none;
  SharedUnits::Ways ways;
  if (paths_->shared()) {
    ways = paths_->shared()->narrow(box, aim.most_s * (1 + price_rounding));
    if (!is_tight()) return none;
  }
  if (!box.begins.single() || paths_->memory())
    return Search(*paths_, box, ways, known, aim).run(choice);
  Bound bound{.seconds = paths_->split_s(box.begins.low)};
  bound.begins.assign(box.begins.low.begin(), box.begins.low.end());
  bound.box = std::move(box);
  return bound;
}

}  // namespace penstock
