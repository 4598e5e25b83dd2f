#include "graph/sharding/dominance.hpp"

#include <algorithm>
#include <bit>

#include "graph/sharding/walk.hpp"

namespace penstock::sharding {
namespace {

/// Costs of holding a value in further layouts, for the few sets of them that states have.
class Ways {
 public:
  Ways(const Choices& choices, const std::vector<State>& states, size_t value) : choices_(choices) {
    for (const State& state : states) sets_.push_back(state.held[value]);
    std::ranges::sort(sets_);
    sets_.erase(std::unique(sets_.begin(), sets_.end()), sets_.end());
    costs_.assign(sets_.size() * sets_.size(), unknown);
  }

  int number(Held set) const {
    return static_cast<int>(std::ranges::lower_bound(sets_, set) - sets_.begin());
  }
  int64_t cost(int from, int to) {
    int64_t& known = costs_[from * sets_.size() + to];
    if (known == unknown) known = sum(sets_[from], sets_[to] & ~sets_[from]);
    return known;
  }

 private:
  static constexpr int64_t unknown = -1;

  int64_t sum(Held held, Held missing) const {
    int64_t sum = 0;
    for (; missing != 0; missing &= missing - 1) {
      const Way way = cheapest_way(choices_, held, std::countr_zero(missing));
      if (way.cost > impossible - sum) return impossible;
      sum += way.cost;
    }
    return sum;
  }

  const Choices& choices_;
  std::vector<Held> sets_;
  std::vector<int64_t> costs_;
};

/// Sets by their numbers, so that two states are compared by a look into a table for each value.
struct Numbered {
  int64_t cost;
  std::vector<int> sets;
};

bool can_become(const Numbered& cheap, const Numbered& other, std::vector<Ways>& ways) {
  int64_t left = other.cost - cheap.cost;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (cheap.sets[i] == other.sets[i]) continue;
    const int64_t cost = ways[i].cost(cheap.sets[i], other.sets[i]);
    if (cost > left) return false;
    left -= cost;
  }
  return true;
}

}  // namespace

Kept undominated(const Problem& problem, const std::vector<ValueId>& live,
                 std::vector<State> states, size_t width) {
  std::ranges::sort(states, [](const State& a, const State& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.held < b.held;
  });
  std::vector<Ways> ways;
  for (size_t i = 0; i < live.size(); ++i) ways.emplace_back(problem.of(live[i]), states, i);
  Kept kept;
  std::vector<Numbered> known;
  for (State& state : states) {
    Numbered numbered{state.cost, {}};
    for (size_t i = 0; i < live.size(); ++i) numbered.sets.push_back(ways[i].number(state.held[i]));
    if (std::ranges::any_of(known,
                            [&](const Numbered& by) { return can_become(by, numbered, ways); }))
      continue;
    if (known.size() == width) {
      kept.all = false;
      break;
    }
    known.push_back(std::move(numbered));
    kept.states.push_back(std::move(state));
  }
  return kept;
}

}  // namespace penstock::sharding
