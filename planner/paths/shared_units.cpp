#include "planner/paths/shared_units.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace penstock {

namespace {

constexpr double endless_s = std::numeric_limits<double>::infinity();
/// Times of a stage's own units.
constexpr SplitTime of_stages[] = {SplitTime::forward, SplitTime::first_forward,
                                   SplitTime::input,   SplitTime::first_input,
                                   SplitTime::weight,  SplitTime::optimizer};

}  // namespace

SharedUnits::SharedUnits(const SplitTimes& times, const std::vector<std::vector<Times>>& paths,
                         std::shared_ptr<const WholeRecompute> recompute, double first)
    : times_(times),
      all_(times_.all()),
      units_(times_.units()),
      most_(1 + units_ - times_.stages()),
      recompute_(std::move(recompute)),
      stages_(paths.size()) {
  for (size_t stage = 0; stage < times_.rank_of_stage().size(); ++stage)
    stages_[static_cast<size_t>(times_.rank_of_stage()[stage])].push_back(stage);
  for (int units = 0; units <= most_; ++units) {
    least_.emplace_back(times_.size(), endless_s);
    for (int stage = 0; units > 0 && stage < times_.stages(); ++stage)
      times_.set_least(stage, units, least_.back());
  }
  for (size_t units = least_.size(); units-- > 1;)
    for (size_t time = 0; time < times_.size(); ++time)
      least_[units - 1][time] = std::min(least_[units - 1][time], least_[units][time]);
  for (size_t rank = 0; rank < paths.size(); ++rank) {
    paths_.emplace_back();
    for (const Times& weights : paths[rank])
      paths_.back().push_back(rank_path(rank, weights, first));
  }
}

/// The least that a path passes in a stage of so many units, wherever it begins.
std::vector<double> SharedUnits::stage_s(const Times& weights, int stage) const {
  std::vector<size_t> passed;
  for (const SplitTime kind : of_stages)
    if (weights[times_.at(kind, stage)] != 0) passed.push_back(times_.at(kind, stage));
  std::vector<double> least_s{endless_s};
  for (int units = 1; units <= most_; ++units) {
    least_s.push_back(endless_s);
    const auto [first, last] = times_.begins(stage, units);
    for (int begin = first; begin <= last; ++begin) {
      double seconds = 0;
      for (const size_t time : passed)
        seconds += weights[time] * times_.of_stage(time, begin, begin + units);
      least_s.back() = std::min(least_s.back(), seconds);
    }
  }
  return least_s;
}

SharedUnits::RankPath SharedUnits::rank_path(size_t rank, const Times& weights,
                                             double first) const {
  RankPath path{weights, weights, {}, endless_s};
  for (const size_t stage : stages_[rank]) {
    const int s = static_cast<int>(stage);
    path.exactly_s.push_back(stage_s(weights, s));
    for (const SplitTime kind : of_stages) path.around[times_.at(kind, s)] = 0;
    path.recomputes =
        std::min(path.recomputes, weights[times_.at(SplitTime::input, s)] +
                                      first * weights[times_.at(SplitTime::first_input, s)]);
  }
  return path;
}

/// The least that each time is in a box, wherever stages begin.
Times SharedUnits::least(const SplitBox& box) const {
  Times least(times_.size());
  for (size_t time = 0; time < least.size(); ++time) {
    const size_t stage = time % box.stages.low.size();
    least[time] = least_[static_cast<size_t>(box.stages.low[stage])][time];
  }
  return least;
}

double SharedUnits::own_s(const RankPath& path, const Dealt& dealt) const {
  double sum_s = 0;
  for (size_t i = 0; i < dealt.size(); ++i)
    sum_s += path.exactly_s[i][static_cast<size_t>(dealt[i])];
  return sum_s;
}

/// The least of the rank's own over all ways to deal so many units out to its stages.
double SharedUnits::least_s(const RankPath& path, int units) const {
  std::vector<double> least_s{0.0};
  for (const std::vector<double>& of_stage : path.exactly_s) {
    std::vector<double> more_s(static_cast<size_t>(units) + 1, endless_s);
    for (size_t known = 0; known < least_s.size(); ++known)
      for (size_t own = 1; own < of_stage.size() && known + own < more_s.size(); ++own)
        more_s[known + own] = std::min(more_s[known + own], least_s[known] + of_stage[own]);
    least_s = std::move(more_s);
  }
  return least_s.back();
}

/// The least over all splits that give the rank so many units.
double SharedUnits::least_load_s(size_t rank, int units) const {
  const auto [known, fresh] = known_load_s_.try_emplace({rank, units}, endless_s);
  if (!fresh || units > units_) return known->second;
  double any_s = 0;
  const Times least = this->least(all_);
  std::vector<double> around_s;
  for (const RankPath& path : paths_[rank]) {
    around_s.push_back(weighted_sum(path.around, least));
    any_s = std::max(any_s, around_s.back() + least_s(path, units));
  }
  const int most = std::min(units - static_cast<int>(stages_[rank].size()) + 1, most_);
  SplitBox box;
  box.stages = {std::vector<int>(all_.stages.low.size(), 1),
                std::vector<int>(all_.stages.low.size(), most)};
  box.ranks.low = box.ranks.high = std::vector<int>(stages_.size(), units);
  const auto way_s = [&](const Dealt& dealt, double again_s) {
    double longest_s = 0;
    for (size_t p = 0; p < around_s.size(); ++p)
      longest_s = std::max(longest_s, around_s[p] + own_s(paths_[rank][p], dealt) +
                                          paths_[rank][p].recomputes * again_s);
    return longest_s;
  };
  std::vector<std::pair<double, Dealt>> ways;
  const bool all = recompute_->each_way(rank, box, [&](const Dealt& dealt) {
    ways.emplace_back(way_s(dealt, recompute_->at_least_s(rank, dealt)), dealt);
  });
  if (!all) return known->second = any_s;
  std::ranges::sort(ways);
  double least_s = endless_s;
  for (const auto& [at_least_s, dealt] : ways) {
    if (at_least_s >= least_s) break;
    least_s = std::min(least_s, way_s(dealt, recompute_->seconds(rank, dealt)));
  }
  return known->second = std::max(least_s, any_s);
}

SharedUnits::Dealt SharedUnits::dealt(const std::vector<int>& begins, size_t rank) const {
  Dealt dealt;
  for (const size_t stage : stages_[rank])
    dealt.push_back((stage + 1 < begins.size() ? begins[stage + 1] : units_) - begins[stage]);
  return dealt;
}

double SharedUnits::split_s(const std::vector<int>& begins) const {
  const Times times = times_.of(begins);
  double longest_s = 0;
  for (size_t rank = 0; rank < paths_.size(); ++rank)
    for (const RankPath& path : paths_[rank])
      longest_s = std::max(longest_s, weighted_sum(path.weights, times) +
                                          path.recomputes * recompute_s(begins, rank));
  return longest_s;
}

SharedUnits::Ways::value_type SharedUnits::ways(size_t rank, const SplitBox& box,
                                                double seconds) const {
  const Times least = this->least(box);
  std::vector<double> around_s;
  for (const RankPath& path : paths_[rank]) around_s.push_back(weighted_sum(path.around, least));
  std::vector<DealtHull::Way> ways;
  const bool all = recompute_->each_way(rank, box, [&](const Dealt& dealt) {
    const auto is_slow = [&](double again_s) {
      for (size_t p = 0; p < around_s.size(); ++p) {
        const RankPath& path = paths_[rank][p];
        if (around_s[p] + own_s(path, dealt) + path.recomputes * again_s > seconds) return true;
      }
      return false;
    };
    if (is_slow(recompute_->at_least_s(rank, dealt))) return;
    const double again_s = recompute_->seconds(rank, dealt);
    if (!is_slow(again_s)) ways.push_back({dealt, again_s});
  });
  if (!all) return std::nullopt;
  return ways;
}

/// Leaves out numbers of units that no way has.
void SharedUnits::narrow_rank(size_t rank, const std::vector<DealtHull::Way>& ways,
                              SplitBox& box) const {
  Ranges of{Dealt(stages_[rank].size(), units_), Dealt(stages_[rank].size(), 0)};
  int fewest = units_, most = 0;
  for (const DealtHull::Way& way : ways) {
    const int units = std::accumulate(way.units.begin(), way.units.end(), 0);
    fewest = std::min(fewest, units);
    most = std::max(most, units);
    for (size_t i = 0; i < way.units.size(); ++i) {
      of.low[i] = std::min(of.low[i], way.units[i]);
      of.high[i] = std::max(of.high[i], way.units[i]);
    }
  }
  const auto narrow = [](Ranges& ranges, size_t number, int low, int high) {
    ranges.low[number] = std::max(ranges.low[number], low);
    ranges.high[number] = std::min(ranges.high[number], high);
  };
  narrow(box.ranks, rank, fewest, most);
  for (size_t i = 0; i < stages_[rank].size(); ++i)
    narrow(box.stages, stages_[rank][i], of.low[i], of.high[i]);
}

SharedUnits::Ways SharedUnits::narrow(SplitBox& box, double seconds) const {
  const std::lock_guard one_at_a_time(narrows_);
  Ways ways;
  for (size_t rank = 0; rank < stages_.size(); ++rank) {
    int& high = box.ranks.high[rank];
    for (int units = box.ranks.low[rank]; units <= high; ++units)
      if (least_load_s(rank, units) > seconds) high = units - 1;
    ways.push_back(this->ways(rank, box, seconds));
    if (ways.back()) narrow_rank(rank, *ways.back(), box);
    if (box.ranks.empty() || box.stages.empty()) break;
  }
  return ways;
}

/// Unit for unit to the rank that is done with one more first.
double SharedUnits::step_s() const {
  struct Next {
    double seconds;
    size_t rank;
    int units;
    auto operator<=>(const Next&) const = default;
  };
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  double done_s = 0;
  int left = units_;
  const auto consider = [&](size_t rank, int units, double no_less_s) {
    next.push({std::max(no_less_s, least_load_s(rank, units)), rank, units});
  };
  for (size_t rank = 0; rank < stages_.size(); ++rank) {
    const int least = all_.ranks.low[rank];
    left -= least;
    const double first_s = least_load_s(rank, least);
    done_s = std::max(done_s, first_s);
    consider(rank, least + 1, first_s);
  }
  for (; left > 0; --left) {
    const Next one = next.top();
    next.pop();
    done_s = std::max(done_s, one.seconds);
    consider(one.rank, one.units + 1, one.seconds);
  }
  return done_s;
}

}  // namespace penstock
