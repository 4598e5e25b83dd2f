#include "planner/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace penstock {

namespace {

/// Bounds and simulations add the same numbers in another order: a few thousand additions, each off
/// by 2^-53 relative. This much less of a bound is safe.
constexpr double rounding = 1e-12;

int64_t nanoseconds(double seconds) {
  if (!(seconds < 9e9)) return std::numeric_limits<int64_t>::max();
  return std::llround(seconds * 1e9);
}

/// The two numbers that come first in a key, most important first.
using Rank = std::pair<int64_t, int64_t>;

/// A split of which the first stages are known.
struct Node {
  ChainBound::Prefix prefix;
  int64_t memory = 0;
  int32_t parent = -1;
  int32_t begin = 0;  // of the stage that comes next; units() when complete
  int32_t left = 0;   // stages still to come
  bool refined = false;
};

/// The open splits of one space.
class Frontier {
 public:
  Frontier(const SplitSpace& space, const SplitSearch& search) : space_(space), search_(search) {
    const int ranks = space.time.ranks();
    if (ranks > space.time.units()) return;
    push(Node{.left = ranks}, nullptr);
  }

  bool empty() const { return queue_.empty(); }
  Rank top() const { return queue_.top().rank; }
  /// Of the best open split.
  double bound_s() const { return least(nodes_[queue_.top().node]); }

  /// Takes the best node; the begins of a split to simulate, or nothing after opening a node.
  /// Leaves out whatever is not better than `incumbent` (its rank and, in this space, its begins).
  std::optional<std::vector<int>> step(const Rank* incumbent) {
    const Entry entry = queue_.top();
    queue_.pop();
    Node& node = nodes_[entry.node];
    if (node.left > 0) {
      open(entry.node, incumbent);
      return std::nullopt;
    }
    if (node.refined) return begins(entry.node);
    node.refined = true;
    node.prefix = {.longest = std::max(least(node), space_.time.split(begins(entry.node)))};
    enqueue(entry.node, incumbent);
    return std::nullopt;
  }

  /// Is the best open node certain to lose against a split of the same rank in this space?
  bool loses(const std::vector<int>& incumbent) const {
    const std::vector<int> known = begins(queue_.top().node);
    const auto [mine, theirs] = std::mismatch(known.begin(), known.end(), incumbent.begin());
    return mine != known.end() ? *mine > *theirs : nodes_[queue_.top().node].left == 0;
  }

 private:
  struct Entry {
    Rank rank;
    int32_t node;
  };
  /// Best rank first; then the split that comes first, the longer known the earlier, so that equal
  /// splits are followed to their end one by one.
  struct Later {
    const Frontier* frontier;
    bool operator()(const Entry& a, const Entry& b) const {
      if (a.rank != b.rank) return a.rank > b.rank;
      const std::vector<int> x = frontier->begins(a.node), y = frontier->begins(b.node);
      const size_t common = std::min(x.size(), y.size());
      const auto [p, q] = std::mismatch(x.begin(), x.begin() + common, y.begin());
      return p != x.begin() + common ? *p > *q : x.size() < y.size();
    }
  };

  double least(const Node& node) const { return space_.time.least(node.prefix, node.begin, node.left); }

  Rank rank(const Node& node) const {
    const int64_t step = nanoseconds(least(node) * (1 - rounding));
    const int64_t memory = std::max(node.memory, space_.memory.suffix(node.begin, node.left));
    return search_.objective == SplitSearch::Objective::step ? Rank(step, memory) : Rank(memory, step);
  }

  std::vector<int> begins(int32_t node) const {
    std::vector<int> result;
    if (nodes_[node].left > 0) result.push_back(nodes_[node].begin);
    for (; nodes_[node].parent >= 0; node = nodes_[node].parent)
      result.push_back(nodes_[nodes_[node].parent].begin);
    std::reverse(result.begin(), result.end());
    return result;
  }

  void open(int32_t at, const Rank* incumbent) {
    const Node node = nodes_[at];
    const int units = space_.time.units();
    const int first = node.left == 1 ? units : node.begin + 1;
    for (int end = first; end <= units - node.left + 1; ++end) {
      Node next;
      next.prefix = space_.time.extend(node.prefix, node.begin, end, node.left);
      next.memory = std::max(node.memory, space_.memory.stage(node.begin, end, node.left));
      next.parent = at;
      next.begin = end;
      next.left = node.left - 1;
      push(next, incumbent);
    }
  }

  void push(const Node& node, const Rank* incumbent) {
    nodes_.push_back(node);
    if (!enqueue(static_cast<int32_t>(nodes_.size()) - 1, incumbent)) nodes_.pop_back();
  }

  bool enqueue(int32_t at, const Rank* incumbent) {
    const Node& node = nodes_[at];
    if (std::max(node.memory, space_.memory.suffix(node.begin, node.left)) > search_.memory_limit)
      return false;
    const Rank mine = rank(node);
    if (incumbent && mine > *incumbent) return false;
    queue_.push({mine, at});
    return true;
  }

  const SplitSpace& space_;
  const SplitSearch& search_;
  std::vector<Node> nodes_;
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_{Later{this}};
};

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
      const Rank* incumbent = result_.best ? &rank_ : nullptr;
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
      if (!frontiers_[space].empty() && (!best || frontiers_[space].top() < frontiers_[*best].top()))
        best = space;
    return best;
  }

  /// Is every open split worse than the best found? `space` has the best of them.
  bool certain(size_t space) const {
    const Rank open = frontiers_[space].top();
    if (open != rank_) return open > rank_;
    const size_t found = result_.best->space;
    return space != found ? space > found : frontiers_[space].loses(result_.best->begins);
  }

  void take(size_t space, const Rank* incumbent) {
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
    if (outcome.step_s < bound_s * (1 - rounding))
      throw std::logic_error(fmt::format("a split is simulated in {} s, faster than its bound of {} s",
                                         outcome.step_s, bound_s));
    ++state_.simulated;
    SearchResult::Space& seen = result_.spaces[space];
    ++seen.simulated;
    if (outcome.peak_bytes > search_.memory_limit) return;
    if (seen.best_s == 0 || outcome.step_s < seen.best_s) seen.best_s = outcome.step_s;
    Rank rank(nanoseconds(outcome.step_s), outcome.peak_bytes);
    if (search_.objective == SplitSearch::Objective::memory) std::swap(rank.first, rank.second);
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
  std::deque<Frontier> frontiers_;  // they hold pointers to themselves: never moved
  SearchResult result_;
  SearchState state_;
  Rank rank_;  // of the best
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
