#include "planner/search.hpp"

#include <fmt/format.h>

#include <deque>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "planner/frontier.hpp"

namespace penstock {

namespace {

class Searcher {
 public:
  Searcher(const std::vector<SplitSpace>& spaces, const SplitSearch& search)
      : spaces_(spaces), search_(search) {
    result_.spaces.resize(spaces.size());
    for (const SplitSpace& space : spaces) frontiers_.emplace_back(space, search);
  }

  SearchResult run() {
    for (size_t space = 0; space < spaces_.size(); ++space)
      while (!frontiers_[space].empty() && result_.spaces[space].simulated == 0)
        take(space, nullptr);
    while (const std::optional<size_t> space = next()) {
      const KeyRank* incumbent = result_.best ? &rank_ : nullptr;
      if (incumbent && certain(*space)) break;
      take(*space, incumbent);
    }
    return std::move(result_);
  }

 private:
  /// The space with the best open node; the first of several.
  std::optional<size_t> next() const {
    std::optional<size_t> best;
    for (size_t space = 0; space < frontiers_.size(); ++space)
      if (!frontiers_[space].empty() &&
          (!best || frontiers_[space].top() < frontiers_[*best].top()))
        best = space;
    return best;
  }

  /// Is every open split worse than the best found? `space` has the best of them.
  bool certain(size_t space) const {
    const KeyRank open = frontiers_[space].top();
    if (open != rank_) return open > rank_;
    const size_t found = result_.best->space;
    return space != found ? space > found : frontiers_[space].loses(result_.best->begins);
  }

  void take(size_t space, const KeyRank* incumbent) {
    const double bound_s = frontiers_[space].bound_s();
    const std::optional<std::vector<int>> begins = frontiers_[space].step(incumbent);
    ++state_.expanded;
    if (begins) simulate(space, *begins, bound_s);
    if (!search_.progress || (!begins && state_.expanded % 4096 != 0)) return;
    state_.bound_s = bound_s;
    state_.best_s = result_.best ? result_.best->outcome.step_s : 0;
    search_.progress(state_);
  }

  void simulate(size_t space, const std::vector<int>& begins, double bound_s) {
    const SplitOutcome outcome = search_.simulate(space, begins);
    if (outcome.step_s < bound_s * (1 - bound_rounding))
      throw std::logic_error(fmt::format(
          "a split is simulated in {} s, faster than its bound of {} s", outcome.step_s, bound_s));
    ++state_.simulated;
    SearchResult::Space& seen = result_.spaces[space];
    ++seen.simulated;
    if (outcome.peak_bytes > search_.memory_limit) return;
    if (seen.best_s == 0 || outcome.step_s < seen.best_s) seen.best_s = outcome.step_s;
    const KeyRank rank = key_rank(outcome.step_s, outcome.peak_bytes, search_.objective);
    const auto better = [&] {
      if (rank != rank_) return rank < rank_;
      return std::tie(space, begins) < std::tie(result_.best->space, result_.best->begins);
    };
    if (result_.best && !better()) return;
    result_.best = FoundSplit{space, begins, outcome};
    rank_ = rank;
  }

  const std::vector<SplitSpace>& spaces_;
  const SplitSearch& search_;
  std::deque<Frontier> frontiers_;
  SearchResult result_;
  SearchState state_;
  KeyRank rank_;  // of the best
};

}  // namespace

int64_t SplitSpace::splits() const {
  const int cuts = time.units() - 1, chosen = time.ranks() - 1;
  if (chosen > cuts) return 0;
  // C(n, k) as a product that stays whole: C(n, i) = C(n, i - 1) (n - i + 1) / i.
  __extension__ using Wide = unsigned __int128;
  Wide count = 1;
  for (int i = 1; i <= chosen; ++i) {
    count = count * static_cast<unsigned>(cuts - i + 1) / static_cast<unsigned>(i);
    if (count > static_cast<Wide>(INT64_MAX)) return INT64_MAX;
  }
  return static_cast<int64_t>(count);
}

SearchResult search_splits(const std::vector<SplitSpace>& spaces, const SplitSearch& search) {
  return Searcher(spaces, search).run();
}

}  // namespace penstock
