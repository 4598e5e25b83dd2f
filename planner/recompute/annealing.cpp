#include "planner/recompute/annealing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace penstock {

namespace {

/// The threshold at first, as a share of the step.
constexpr double first_threshold = 2e-3;
/// The effort of a try, and of following so many actions one more (measured with 2,048 to 6,144).
constexpr int effort_of_try = 4, actions_per_one = 100;

}  // namespace

Annealing::Annealing(const ProgramPaths& paths, std::vector<int> begins, int64_t effort,
                     uint32_t seed)
    : paths_(paths),
      most_effort_(effort),
      random_(seed),
      at_{std::move(begins),
          {},
          std::vector<double>(static_cast<size_t>(paths.times().stages())),
          0} {
  for (const LayerChoices& unit : paths_.recompute()->units()) {
    const auto least = std::ranges::max_element(unit, {}, &LayerChoice::bytes);
    at_.choices.push_back(unit.empty() ? -1 : static_cast<int>(least - unit.begin()));
  }
  change_all();
  at_.step_s = longest_s(at_);
  best_ = at_;
}

void Annealing::change_all() {
  for (int rank = 0; rank < paths_.ranks(); ++rank) changed(static_cast<size_t>(rank));
}

int Annealing::end(const State& of, int stage) const {
  const auto next = static_cast<size_t>(stage) + 1;
  return next < of.begins.size() ? of.begins[next] : paths_.times().units();
}

/// Infinite where it does not fit.
double Annealing::longest_s(State& of) {
  for (const size_t rank : changed_)
    if (!paths_.recompute()->lengthen(rank, of.begins, of.choices, of.longer_s))
      return std::numeric_limits<double>::infinity();
  effort_ += paths_.actions() / actions_per_one;
  Times times = paths_.times().of(of.begins);
  paths_.memory()->lengthen(paths_.times(), of.longer_s, times);
  return paths_.longest_s(times);
}

int Annealing::unit_of_rank(const State& of, int rank) {
  const std::vector<size_t>& stages = paths_.recompute()->stages()[static_cast<size_t>(rank)];
  const auto stage = stages[static_cast<size_t>(below(static_cast<int>(stages.size())))];
  const int begin = of.begins[stage];
  return begin + below(end(of, static_cast<int>(stage)) - begin);
}

/// False: it chooses what it did before.
bool Annealing::choose(State& of, int unit) {
  const auto u = static_cast<size_t>(unit);
  const int count = static_cast<int>(paths_.recompute()->units()[u].size());
  const int before = std::exchange(of.choices[u], below(count + 1) - 1);
  return of.choices[u] != before;
}

/// A unit from one stage to another. Choices stay in their stages, but for that of the unit.
bool Annealing::move(State& of) {
  const int stages = paths_.times().stages();
  const int from = below(stages), to = below(stages);
  const int begin = of.begins[static_cast<size_t>(from)], count = end(of, from) - begin;
  if (from == to || count == 1) return false;
  const auto moved = of.choices.begin() + begin + below(count);
  const int choice = *moved;
  of.choices.erase(moved);
  for (int stage = std::min(from, to) + 1; stage <= std::max(from, to); ++stage)
    of.begins[static_cast<size_t>(stage)] += from < to ? -1 : 1;
  const int at = of.begins[static_cast<size_t>(to)];
  of.choices.insert(of.choices.begin() + at + below(end(of, to) - at), choice);
  const std::vector<LayerChoices>& units = paths_.recompute()->units();
  for (size_t unit = 0; unit < units.size(); ++unit)
    of.choices[unit] = std::min(of.choices[unit], static_cast<int>(units[unit].size()) - 1);
  const std::vector<int>& rank_of_stage = paths_.times().rank_of_stage();
  for (int stage = std::min(from, to); stage <= std::max(from, to); ++stage)
    changed(static_cast<size_t>(rank_of_stage[static_cast<size_t>(stage)]));
  for (const int stage : {from, to})
    if (below(2) == 0) choose(of, unit_of_rank(of, rank_of_stage[static_cast<size_t>(stage)]));
  return true;
}

bool Annealing::change(State& of) {
  const int kind = below(3);
  if (kind == 0) return move(of);
  const int rank = below(paths_.ranks());
  changed(static_cast<size_t>(rank));
  const bool one = choose(of, unit_of_rank(of, rank));
  return kind == 1 ? one : choose(of, unit_of_rank(of, rank)) || one;
}

int64_t Annealing::go_on(int64_t effort) {
  const int64_t begun = effort_, end = std::min(effort_ + effort, most_effort_);
  while (effort_ < end) {
    const double left = 1 - static_cast<double>(effort_) / static_cast<double>(most_effort_);
    const double threshold_s =
        std::isinf(best_.step_s) ? 0 : first_threshold * best_.step_s * left * left;
    next_ = at_;
    changed_.clear();
    if (std::isinf(at_.step_s)) change_all();
    effort_ += effort_of_try;
    if (!change(next_)) continue;
    next_.step_s = longest_s(next_);
    if (!(next_.step_s <= at_.step_s + threshold_s)) continue;
    std::swap(at_, next_);
    if (at_.step_s < best_.step_s) best_ = at_;
  }
  return effort_ - begun;
}

}  // namespace penstock
