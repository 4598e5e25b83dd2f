#include "planner/splits/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "planner/open/in_parallel.hpp"
#include "planner/splits/candidate.hpp"
#include "planner/splits/space_list.hpp"

namespace penstock {

namespace {

/// Splits taken by their bounds, and spaces that climb, while there are others that look promising;
/// spaces with the best splits, where none climbs.
constexpr size_t round_of_bounds = 1, round_of_climbs = 2, round_of_fastest = 4;
constexpr size_t warm_spaces = 2 * round_width;
/// The part of the effort in which only an exhaustive search ends.
constexpr int64_t exhaustive_share = 8;

/// The part of the effort after which the best space is annealed.
constexpr int64_t annealing_share = 8;

class Searcher {
 public:
  Searcher(const std::vector<SpaceBlock>& blocks, const SplitSearch& search)
      : spaces_(blocks, search), search_(search) {}

  SearchResult run() {
    for (std::vector<size_t> round = next(); !round.empty(); round = next()) {
      if (effort_ > search_.effort || kept_ > search_.nodes || near_the_best()) break;
      result_.stopped = search_.stop && search_.stop();
      if (result_.stopped) break;
      advance(round);
    }
    conclude();
    return std::move(result_);
  }

 private:
  using Top = SpaceList::Top;

  /// Spaces that may hold something better than the best found: those with the best open nodes, and
  /// the most promising that were not looked into. Of those with boxes, which are bounded on all
  /// threads, only the best has a turn.
  std::vector<size_t> next() {
    std::erase_if(open_, [&](size_t space) {
      const bool done = candidate(space).closed() || certain({candidate(space).top(), space});
      if (done) candidate(space).close();
      return done;
    });
    if (anneals_best()) return {result_.best->space};
    const std::vector<size_t> best = best_open();
    const size_t width = std::min(best.size(), affordable());
    std::vector<size_t> round;
    const auto add = [&](size_t space, size_t most) {
      if (round.size() < most && std::ranges::find(round, space) == round.end())
        round.push_back(space);
    };
    const std::vector<size_t> climbs = climbing();
    for (const size_t space : best)
      if (climbs.empty() || !is_boxed(space)) add(space, std::min(width, round_of_bounds));
    for (const size_t space : climbs) add(space, width);
    for (const size_t space : spaces_.promising(dead())) add(space, width);
    if (climbs.empty())
      for (const size_t space : fastest()) add(space, width);
    for (size_t i = 0; i < best.size() && climbs.empty(); ++i)
      if (!is_boxed(best[i])) add(best[i], width);
    return round;
  }

  /// Turns of a round, so that large splits do not take many times the search's effort: one at
  /// first, when it is not known yet what a turn takes.
  size_t affordable() const {
    const int64_t left = std::max<int64_t>(0, search_.effort - effort_);
    return dearest_ == 0 ? 1 : static_cast<size_t>(2 + left / dearest_);
  }

  /// Among many spaces the boxes of the best may never have had enough for an annealing.
  bool anneals_best() {
    if (!result_.best || effort_ < search_.effort / annealing_share || !climbing().empty())
      return false;
    Candidate& best = candidate(result_.best->space);
    if (best.closed() || !best.awaits_annealing()) return false;
    best.anneal_soon();
    return true;
  }

  Candidate& candidate(size_t space) const { return *candidates_.at(space); }

  bool is_boxed(size_t space) const {
    const auto of = candidates_.find(space);
    return of != candidates_.end() && of->second->boxed();
  }

  /// Not of a space that has been looked into, nor of one that only loses.
  bool is_dead(const Top& untouched) const {
    return candidates_.contains(untouched.second) || certain(untouched);
  }
  SpaceList::Dead dead() const {
    return [this](const Top& untouched) { return is_dead(untouched); };
  }

  /// The spaces with the best open splits, those that wait behind all others; none
  /// that is near the best as long as there are others.
  std::vector<size_t> best_open() {
    std::vector<std::tuple<bool, SplitRank, size_t>> order, near;
    for (const size_t space : open_)
      (is_near(space) ? near : order)
          .emplace_back(candidate(space).waits(), candidate(space).top(), space);
    for (const auto& [top, space] : spaces_.best(dead())) order.emplace_back(false, top, space);
    if (order.empty()) order = std::move(near);
    const size_t width = std::min(round_width, order.size());
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(width));
    std::vector<size_t> spaces;
    for (size_t i = 0; i < width; ++i) spaces.push_back(std::get<size_t>(order[i]));
    return spaces;
  }

  /// Is a space of that bound not faster than the best by as much as a search looks for?
  bool is_near(int64_t complexity, double weighted_s) const {
    if (!result_.best || search_.objective != SearchObjective::step) return false;
    const SplitOrder& found = candidate(result_.best->space).order();
    const double enough_s = (1 - near_enough) * found.weight * result_.best->outcome.step_s;
    return complexity > found.complexity ||
           (complexity == found.complexity && weighted_s >= enough_s);
  }
  bool is_near(size_t space) const {
    const Candidate& of = candidate(space);
    return is_near(of.order().complexity, of.order().weight * of.bound_s());
  }

  /// Is nothing left that is faster by more than a search with little effort left looks for?
  bool near_the_best() const { return effort_ >= search_.effort / exhaustive_share && all_near(); }
  bool all_near() const {
    return std::ranges::all_of(open_, [&](size_t space) { return is_near(space); }) &&
           untouched_all([&](const SearchSpace& of) {
             return is_near(of.complexity, of.weight * of.bound_s);
           });
  }

  template <typename Predicate>
  bool untouched_all(const Predicate& holds) const {
    bool all = true;
    spaces_.each(dead(), [&](const SearchSpace& of) { all = all && holds(of); });
    return all;
  }

  static std::vector<size_t> first(std::vector<Top> all, size_t most) {
    const size_t width = std::min(most, all.size());
    std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(width));
    std::vector<size_t> spaces;
    for (size_t i = 0; i < width; ++i) spaces.push_back(all[i].second);
    return spaces;
  }

  /// Spaces that have come to the best splits of those that still climb.
  std::vector<size_t> climbing() const {
    std::vector<Top> all;
    for (const size_t space : open_)
      if (const auto reached = candidate(space).climbing(); reached && !is_near(space))
        all.emplace_back(*reached, space);
    return first(std::move(all), round_of_climbs);
  }

  /// The open spaces in which the best splits were found: where bounds are all alike, spaces of
  /// more splits would never let these have a turn.
  std::vector<size_t> fastest() const {
    std::vector<Top> all;
    for (const size_t space : open_) {
      const Candidate& of = candidate(space);
      if (of.result.best && !of.boxed() && !is_near(space))
        all.emplace_back(of.rank_of(of.result.best->outcome), space);
    }
    return first(std::move(all), round_of_fastest);
  }

  void learn(size_t space, const SplitOutcome& outcome, bool fits) {
    const Candidate& of = candidate(space);
    if (of.result.simulated > 1 || !(of.guess_s() > 0) || std::isinf(of.guess_s())) return;
    if (fits)
      spaces_.took(of.group(), of.order().weight * outcome.step_s / of.guess_s());
    else
      spaces_.did_not_fit(of.group(), outcome.effort);
  }

  /// Is every open split of a space worse than the best found?
  bool certain(const Top& of) const {
    if (!result_.best) return false;
    const auto& [top, space] = of;
    if (top != rank_) return top > rank_;
    const size_t found = result_.best->space;
    return space != found ? space > found : candidate(space).loses(result_.best->begins);
  }

  void advance(const std::vector<size_t>& round) {
    std::vector<Candidate::Step> steps(round.size());
    const SplitRank incumbent = rank_;
    const SplitRank* known = result_.best ? &incumbent : nullptr;
    std::vector<int64_t> before;
    for (const size_t space : round) {
      if (!candidates_.contains(space)) look_into(space);
      before.push_back(candidate(space).effort);
    }
    in_parallel(round.size(), search_.threads,
                [&](size_t i) { steps[i] = candidate(round[i]).advance(known); });
    for (size_t i = 0; i < round.size(); ++i) {
      if (!steps[i].begins.empty()) take(round[i], steps[i]);
    }
    rest_others(round);
    for (size_t i = 0; i < round.size(); ++i) {
      const int64_t taken = candidate(round[i]).effort - before[i];
      effort_ += taken;
      dearest_ = std::max(dearest_, taken);
    }
    kept_ = 0;
    for (const size_t space : open_) kept_ += candidate(space).kept();
    if (kept_ > search_.nodes / 2)
      for (const size_t space : open_) candidate(space).keep_few();
    report(round.front());
  }

  void look_into(size_t space) {
    candidates_[space] = std::make_unique<Candidate>(spaces_[space], search_);
    open_.push_back(space);
  }

  /// Spaces hold megabytes each, the more the more ranks: only those of the last rounds keep them.
  void rest_others(const std::vector<size_t>& round) {
    for (const size_t space : round) {
      std::erase(warm_, space);
      warm_.push_back(space);
    }
    while (warm_.size() > warm_spaces) {
      candidate(warm_.front()).rest();
      warm_.pop_front();
    }
  }

  void take(size_t space, const Candidate::Step& step) {
    const SplitOutcome& outcome = step.outcome;
    const SplitOrder& order = candidate(space).order();
    const bool fits = outcome.peak_bytes <= order.max_bytes;
    if (fits && outcome.step_s < step.bound_s * (1 - bound_rounding)) {
      throw std::logic_error(
          fmt::format("a split is simulated in {} s, faster than its bound of {} s", outcome.step_s,
                      step.bound_s));
    }
    ++simulated_;
    SearchResult::Space& seen = candidate(space).result;
    ++seen.simulated;
    learn(space, outcome, fits);
    if (!order.admits(outcome.step_s, outcome.peak_bytes)) return;
    const FoundSplit found{space, step.begins, outcome};
    if (better(found, seen.best)) seen.best = found;
    if (!better(found, result_.best)) return;
    result_.best = found;
    rank_ = candidate(space).rank_of(outcome);
  }

  bool better(const FoundSplit& a, const std::optional<FoundSplit>& b) const {
    if (!b) return true;
    const SplitRank x = candidate(a.space).rank_of(a.outcome);
    const SplitRank y = candidate(b->space).rank_of(b->outcome);
    return std::tie(x, a.space, a.begins) < std::tie(y, b->space, b->begins);
  }

  void report(size_t front) {
    if (!search_.progress) return;
    const double allowed = static_cast<double>(search_.effort);
    const Candidate& first = candidate(front);
    search_.progress({.simulated = simulated_,
                      .bound_s = first.closed() ? 0 : first.bound_s(),
                      .best_s = result_.best ? result_.best->outcome.step_s : 0,
                      .effort = static_cast<double>(effort_) / allowed});
  }

  void conclude() {
    result_.complete = open_.empty() && spaces_.best(dead()).empty();
    result_.all_seen = result_.complete || all_near();
    for (const size_t space : open_) leave_open(candidate(space).bound_s());
    for (const auto& [space, of] : candidates_) {
      if (of->order().bound(of->left_s(), of->result.bytes) >= rank_) continue;
      result_.complete = false;
      leave_open(of->left_s());
    }
    spaces_.each(dead(), [&](const SearchSpace& of) {
      result_.untouched_bound_s = std::min(result_.untouched_bound_s, of.bound_s);
      leave_open(of.bound_s);
    });
    for (auto& [space, of] : candidates_) result_.spaces.emplace(space, std::move(of->result));
  }

  void leave_open(double bound_s) {
    if (result_.open_bound_s == 0 || bound_s < result_.open_bound_s) result_.open_bound_s = bound_s;
  }

  SpaceList spaces_;
  const SplitSearch& search_;
  std::map<size_t, std::unique_ptr<Candidate>> candidates_;  // of spaces looked into
  std::vector<size_t> open_;                                 // those of them not done
  std::deque<size_t> warm_;  // the last to have had a turn, the latest behind
  SearchResult result_;
  int64_t simulated_ = 0, effort_ = 0, kept_ = 0;
  int64_t dearest_ = 0;  // effort of a turn
  SplitRank rank_;       // of the best
};

}  // namespace

SearchResult search_splits(const std::vector<SpaceBlock>& blocks, const SplitSearch& search) {
  return Searcher(blocks, search).run();
}

}  // namespace penstock
