#include "planner/paths/full_ranks.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace penstock {

namespace {

/// Actions of paths that are followed, and sets of ranks that are tried, at most.
constexpr int64_t most_followed = 30'000'000, most_sets = 10'000;

int units_of(const DealtHull::Way& way) {
  return std::accumulate(way.units.begin(), way.units.end(), 0);
}

}  // namespace

FullRanks::FullRanks(const ProgramPaths& paths) : paths_(paths), times_(paths.times()) {
  const int most = 1 + times_.units() - times_.stages();
  for (int units = 0; units <= most; ++units) {
    of_units_.emplace_back(times_.size());
    for (int stage = 0; units > 0 && stage < times_.stages(); ++stage)
      times_.set_least(stage, units, of_units_.back());
  }
}

/// The ways that give a rank as many units as it can have. False: of some rank they are not known.
bool FullRanks::note_full(const SplitBox& box, SharedUnits::Ways ways) {
  full_.assign(ways.size(), {});
  for (int stage = 0; stage < times_.stages(); ++stage)
    full_[static_cast<size_t>(times_.rank_of_stage()[static_cast<size_t>(stage)])].stages.push_back(
        stage);
  for (size_t rank = 0; rank < ways.size(); ++rank) {
    if (!ways[rank]) return false;
    std::erase_if(*ways[rank],
                  [&](const Way& way) { return units_of(way) < box.ranks.high[rank]; });
    full_[rank].ways = std::move(*ways[rank]);
  }
  least_ = times_.least(box);
  return true;
}

/// The longest path where recompute is where the units are, or all of one rank's in each of its
/// stages, so that it passes them.
FullRanks::Path FullRanks::follow(const Dealt& one, const Dealt& other, const Dealt* all_of) {
  ++followed_;
  Times seen = least_;
  std::vector<double> longer_s(static_cast<size_t>(times_.stages()), 0.0);
  for (const Dealt* dealt : {&one, &other}) {
    for (size_t i = 0; i < dealt->stages.size(); ++i) {
      const int units = dealt->way.units[i];
      times_.set_least(dealt->stages[i], units, seen);
      const double share =
          dealt == all_of ? 1.0 : static_cast<double>(units) / units_of(dealt->way);
      longer_s[static_cast<size_t>(dealt->stages[i])] = share * dealt->way.seconds;
    }
  }
  if (paths_.memory()) paths_.memory()->lengthen(times_, longer_s, seen);
  Path path{paths_.longest_path(seen).weights, std::vector<double>(longer_s.size(), 0.0), 0};
  if (paths_.memory()) path.longer = paths_.memory()->longer(times_, path.weights);
  Times around = least_;
  for (const Dealt* dealt : {&one, &other})
    for (const int stage : dealt->stages)
      for (int kind = 0; kind < split_times; ++kind)
        around[times_.at(static_cast<SplitTime>(kind), stage)] = 0;
  path.around_s = weighted_sum(path.weights, around);
  return path;
}

/// Whichever of its stages it recomputes in.
double FullRanks::own_s(const Path& path, const Dealt& dealt) const {
  double sum_s = 0, seldom = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < dealt.stages.size(); ++i) {
    const Times& times = of_units_[static_cast<size_t>(dealt.way.units[i])];
    for (int kind = 0; kind < split_times; ++kind) {
      const size_t time = times_.at(static_cast<SplitTime>(kind), dealt.stages[i]);
      sum_s += path.weights[time] * times[time];
    }
    seldom = std::min(seldom, path.longer[static_cast<size_t>(dealt.stages[i])]);
  }
  return sum_s + seldom * dealt.way.seconds;
}

/// Paths of other ways mostly are long in these, too.
bool FullRanks::fast_enough(const Dealt& one, const Dealt& other, double seconds,
                            std::vector<Path>& known) {
  const auto is_long = [&](const Path& path) {
    return path.around_s + own_s(path, one) + own_s(path, other) >= seconds;
  };
  if (std::ranges::any_of(known, is_long)) return false;
  for (const Dealt* all_of : {&other, &one, static_cast<const Dealt*>(nullptr)}) {
    Path path = follow(one, other, all_of);
    if (!is_long(path)) continue;
    known.push_back(std::move(path));
    return false;
  }
  return true;
}

/// May both be full in less than that? Also where it takes too many paths to tell.
bool FullRanks::fast_enough(const Full& one, const Full& other, double seconds) {
  std::vector<Path> known;
  for (const Way& a : one.ways) {
    for (const Way& b : other.ways) {
      if (followed_ * paths_.actions() > most_followed) return true;
      if (fast_enough({one.stages, a}, {other.stages, b}, seconds, known)) return true;
    }
  }
  return false;
}

/// Are there so many of the ranks with an edge between each two? Also where that takes too many
/// sets to tell.
bool FullRanks::has_clique(const std::vector<std::vector<char>>& edges, std::vector<size_t> ranks,
                           size_t count) {
  if (count == 0 || ++tried_ > most_sets) return true;
  while (ranks.size() >= count) {
    const size_t last = ranks.back();
    ranks.pop_back();
    std::vector<size_t> others = ranks;
    std::erase_if(others, [&](size_t rank) { return edges[last][rank] == 0; });
    if (has_clique(edges, std::move(others), count - 1)) return true;
  }
  return false;
}

bool FullRanks::none_is_faster(SplitBox box, double seconds) {
  SharedUnits::Ways ways = paths_.shared()->narrow(box, seconds);
  if (!tighten(box, times_.rank_of_stage(), times_.units())) return true;
  if (!note_full(box, std::move(ways))) return false;
  int others = -times_.units();  // that have less
  for (const int most : box.ranks.high) others += most;
  const int count = static_cast<int>(full_.size()) - others;
  if (count < 2) return false;
  std::vector<std::vector<char>> edges(full_.size(), std::vector<char>(full_.size(), 0));
  for (size_t one = 0; one < full_.size(); ++one)
    for (size_t other = one + 1; other < full_.size(); ++other)
      edges[one][other] = edges[other][one] = fast_enough(full_[one], full_[other], seconds);
  std::vector<size_t> ranks(full_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return !has_clique(edges, std::move(ranks), static_cast<size_t>(count));
}

}  // namespace penstock
