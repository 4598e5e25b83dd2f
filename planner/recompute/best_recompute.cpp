#include "planner/recompute/best_recompute.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <utility>

#include "planner/recompute/option_game.hpp"

namespace penstock {

namespace {

constexpr double never_s = std::numeric_limits<double>::infinity();
/// Relative: what is shorter by less counts as equal, so that sums may be rounded.
constexpr double equal_within = 1e-9;
/// Paths that a solution adds.
constexpr size_t paths_at_once = 4;
/// An effort of one has so many actions of a path that is followed, or so many products in what
/// options hold (measured with 16 to 96 stages); the work of the solver counts as it is.
constexpr int actions_for_one = 100, products_for_one = 100;

class RecomputeSearch {
 public:
  RecomputeSearch(const ProgramPaths& paths, const std::vector<int>& begins, double below_s,
                  int64_t effort, const std::function<bool()>& stop)
      : paths_(paths),
        recompute_(*paths.recompute()),
        begins_(begins),
        below_s_(below_s),
        most_effort_(effort),
        stop_(stop),
        times_(paths.times().of(begins)),
        prices_(static_cast<size_t>(paths.times().stages()), 1.0),
        game_(paths.ranks()) {}

  BestRecompute run() {
    Node root{paths_.split_s(begins_), {}};
    found_.bound_s = root.bound_s;
    if (root.bound_s >= below_s_) return found_;
    if (!begin(root)) {
      found_.bound_s = never_s;
      return found_;
    }
    open_.push(std::move(root));
    double closed_s = never_s;
    while (!open_.empty() && !ends()) {
      Node node = open_.top();
      open_.pop();
      if (node.bound_s < enough_s()) look_at(node);
      const double bound_s = node.bound_s;
      if (bound_s >= enough_s() || !all_known_ || !divide(std::move(node)))
        closed_s = std::min(closed_s, bound_s);
    }
    found_.gave_up = !all_known_ || ends();
    found_.bound_s =
        std::min({closed_s, found_.step_s, open_.empty() ? never_s : open_.top().bound_s});
    found_.effort = effort();
    return std::move(found_);
  }

 private:
  /// One of a rank's; the game knows those that were ever the cheapest.
  struct Option {
    SplitRecompute::Option of;
    int number;  // in the game, or `not_in_game`
  };
  static constexpr int not_in_game = -1;
  struct Node {
    double bound_s = 0;
    std::vector<std::vector<size_t>> options;  // that are left, by rank
  };
  struct Higher {
    bool operator()(const Node& a, const Node& b) const { return a.bound_s > b.bound_s; }
  };
  struct Path {
    double seconds;  // where nothing is recomputed
    std::vector<double> longer;
  };

  int64_t effort() const { return found_.effort + game_.work(); }
  bool ends() const { return effort() >= most_effort_ || (stop_ && stop_()); }
  double enough_s() const { return std::min(below_s_, found_.step_s * (1 - equal_within)); }
  const std::vector<size_t>& stages(size_t rank) const { return recompute_.stages()[rank]; }

  /// False: a rank does not fit.
  bool begin(Node& root) {
    add_path(paths_.longest_path(times_));
    const int64_t most = products_for_one * most_effort_ / paths_.ranks();
    for (size_t rank = 0; rank < static_cast<size_t>(paths_.ranks()); ++rank) {
      int64_t products = 0;
      auto options = recompute_.options(rank, begins_, most, products);
      found_.effort += products / products_for_one;
      options_.emplace_back();
      root.options.emplace_back();
      all_known_ = all_known_ && options;
      if (options) {
        for (SplitRecompute::Option& option : *options) add_option(root, rank, std::move(option));
      } else if (auto option = recompute_.cheapest(rank, begins_, prices_)) {
        add_option(root, rank, std::move(*option));
      }
      if (options_[rank].empty()) return false;
    }
    return true;
  }

  void add_option(Node& node, size_t rank, SplitRecompute::Option option) {
    node.options[rank].push_back(options_[rank].size());
    options_[rank].push_back({std::move(option), not_in_game});
  }

  /// Enters it into the game; false: it is there.
  bool enter(size_t rank, size_t option) {
    int& number = options_[rank][option].number;
    if (number != not_in_game) return false;
    std::vector<double> longer;
    for (const Path& path : known_paths_) longer.push_back(longer_s(rank, option, path.longer));
    number = game_.add_option(static_cast<int>(rank), longer);
    entered_.emplace_back(rank, option);
    return true;
  }

  void add_path(const ProgramPaths::Path& path) {
    Path known{weighted_sum(path.weights, times_),
               paths_.memory()->longer(paths_.times(), path.weights)};
    std::vector<double> longer;
    for (const auto& [rank, option] : entered_)
      longer.push_back(longer_s(rank, option, known.longer));
    game_.add_path(known.seconds, longer);
    known_paths_.push_back(std::move(known));
  }

  /// By how much an option makes a path longer, or what it costs.
  double longer_s(size_t rank, size_t option, const std::vector<double>& prices) const {
    const std::vector<double>& of = options_[rank][option].of.longer_s;
    double sum_s = 0;
    for (size_t i = 0; i < of.size(); ++i) sum_s += prices[stages(rank)[i]] * of[i];
    return sum_s;
  }

  /// By the last prices, of those that are left.
  size_t cheapest(const Node& node, size_t rank) const {
    return *std::ranges::min_element(
        node.options[rank], {}, [&](size_t option) { return longer_s(rank, option, prices_); });
  }

  double share(size_t rank, size_t option) const {
    const int number = options_[rank][option].number;
    return number == not_in_game ? 0 : game_.share(number);
  }

  /// Bounds a node, and takes what its mixture comes to.
  void look_at(Node& node) {
    size_t more = enter_cheapest(node);
    do {
      solve(node);
      const double bound_s = bound(node);
      if (all_known_) node.bound_s = std::max(node.bound_s, bound_s);
      if (node.bound_s >= enough_s()) return;
      more = add_longer(node);
      more += enter_cheapest(node);
    } while (more > 0 && !ends());
    take(node);
  }

  void solve(const Node& node) {
    std::vector<char> allowed;
    for (const auto& [rank, option] : entered_)
      allowed.push_back(std::ranges::binary_search(node.options[rank], option));
    game_.solve(allowed);
  }

  /// By the weights of the last solution. It does not rest on the solver's accuracy.
  double bound(const Node& node) {
    const std::vector<double> weights = game_.path_weights();
    double bound_s = 0;
    std::ranges::fill(prices_, 0.0);
    for (size_t path = 0; path < weights.size(); ++path) {
      bound_s += weights[path] * known_paths_[path].seconds;
      for (size_t stage = 0; stage < prices_.size(); ++stage)
        prices_[stage] += weights[path] * known_paths_[path].longer[stage];
    }
    for (size_t rank = 0; rank < options_.size(); ++rank)
      bound_s += longer_s(rank, cheapest(node, rank), prices_);
    return bound_s;
  }

  /// Enters each rank's option that costs least; how many the game did not know.
  size_t enter_cheapest(Node& node) {
    size_t entered = 0;
    for (size_t rank = 0; rank < options_.size(); ++rank) {
      if (!all_known_)
        if (auto option = recompute_.cheapest(rank, begins_, prices_))
          add_option(node, rank, std::move(*option));
      entered += enter(rank, cheapest(node, rank)) ? 1 : 0;
    }
    return entered;
  }

  Times longer(const std::vector<double>& longer_s) const {
    Times times = times_;
    paths_.memory()->lengthen(paths_.times(), longer_s, times);
    return times;
  }

  /// Paths that are longer for the mixture of options than any known one; how many.
  size_t add_longer(const Node& node) {
    std::vector<double> mean_s(prices_.size(), 0.0);
    for (size_t rank = 0; rank < options_.size(); ++rank)
      for (const size_t option : node.options[rank])
        for (size_t i = 0; i < stages(rank).size(); ++i)
          mean_s[stages(rank)[i]] += share(rank, option) * options_[rank][option].of.longer_s[i];
    const double known_s = game_.seconds() * (1 + equal_within);
    std::vector<ProgramPaths::Path> paths = paths_.longest(longer(mean_s));
    found_.effort += paths_.actions() / actions_for_one;
    std::erase_if(paths, [&](const ProgramPaths::Path& path) { return path.seconds <= known_s; });
    paths.resize(std::min(paths.size(), paths_at_once));
    for (const ProgramPaths::Path& path : paths) add_path(path);
    return paths.size();
  }

  /// The options of ranks that have the largest shares.
  void take(const Node& node) {
    std::vector<double> longer_s(prices_.size(), 0.0);
    std::vector<const SplitRecompute::Option*> taken;
    for (size_t rank = 0; rank < options_.size(); ++rank) {
      const size_t most = *std::ranges::max_element(
          node.options[rank], {}, [&](size_t option) { return share(rank, option); });
      taken.push_back(&options_[rank][most].of);
      for (size_t i = 0; i < stages(rank).size(); ++i)
        longer_s[stages(rank)[i]] = taken.back()->longer_s[i];
    }
    const double step_s = paths_.longest_s(longer(longer_s));
    found_.effort += paths_.actions() / actions_for_one;
    if (step_s >= found_.step_s) return;
    found_.step_s = step_s;
    found_.prices = prices_;
    note(taken);
  }

  void note(const std::vector<const SplitRecompute::Option*>& taken) {
    found_.choices.assign(static_cast<size_t>(paths_.times().units()), -1);
    for (size_t rank = 0; rank < taken.size(); ++rank) {
      auto choice = taken[rank]->choices.begin();
      for (const size_t stage : stages(rank)) {
        const int end = stage + 1 < begins_.size() ? begins_[stage + 1] : paths_.times().units();
        for (int unit = begins_[stage]; unit < end; ++unit)
          found_.choices[static_cast<size_t>(unit)] = *choice++;
      }
    }
  }

  /// How options of a rank differ in what they make one of its stages longer, in the mixture.
  struct Spread {
    double spread, mean_s;
    size_t rank, i;
    auto operator<=>(const Spread&) const = default;
  };
  Spread spread(const Node& node, size_t rank, size_t i) const {
    double mean_s = 0, spread = 0;
    for (const size_t option : node.options[rank])
      mean_s += share(rank, option) * options_[rank][option].of.longer_s[i];
    for (const size_t option : node.options[rank])
      spread += share(rank, option) * std::abs(options_[rank][option].of.longer_s[i] - mean_s);
    return {spread * std::max(1.0, prices_[stages(rank)[i]]), mean_s, rank, i};
  }

  /// By what makes the stage longer whose options differ most; false: none do.
  bool divide(Node node) {
    Spread widest{equal_within * game_.seconds(), 0, options_.size(), 0};
    for (size_t rank = 0; rank < options_.size(); ++rank)
      for (size_t i = 0; i < stages(rank).size(); ++i)
        widest = std::max(widest, spread(node, rank, i));
    if (widest.rank == options_.size()) return false;
    Node less = node;
    const auto is_less = [&](size_t option) {
      return options_[widest.rank][option].of.longer_s[widest.i] <= widest.mean_s;
    };
    std::erase_if(less.options[widest.rank], [&](size_t option) { return !is_less(option); });
    std::erase_if(node.options[widest.rank], is_less);
    open_.push(std::move(less));
    open_.push(std::move(node));
    return true;
  }

  const ProgramPaths& paths_;
  const SplitRecompute& recompute_;
  const std::vector<int>& begins_;
  const double below_s_;
  const int64_t most_effort_;
  const std::function<bool()>& stop_;
  const Times times_;      // where nothing is recomputed
  bool all_known_ = true;  // the options of all ranks
  std::vector<std::vector<Option>> options_;
  std::vector<std::pair<size_t, size_t>> entered_;  // ranks and options, as the game numbers them
  std::vector<Path> known_paths_;
  std::vector<double> prices_;  // of a second of each stage's backward, by the last solution
  OptionGame game_;
  std::priority_queue<Node, std::vector<Node>, Higher> open_;
  BestRecompute found_;
};

}  // namespace

BestRecompute best_recompute(const ProgramPaths& paths, const std::vector<int>& begins,
                             double below_s, int64_t effort, const std::function<bool()>& stop) {
  return RecomputeSearch(paths, begins, below_s, effort, stop).run();
}

}  // namespace penstock
