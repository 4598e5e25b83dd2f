#include "planner/bounds/layer_choices.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace penstock {

namespace {

constexpr double never_s = std::numeric_limits<double>::infinity();
/// Knapsacks, of some kilobytes each.
constexpr size_t most_known = 2000;

/// A step along the lower convex hull of a layer's choices.
struct Increment {
  size_t layer;
  LayerChoice more;
};

/// By bytes, each the cheapest for them: both ascend.
LayerChoices pareto(LayerChoices choices) {
  std::ranges::sort(choices, {},
                    [](const LayerChoice& c) { return std::pair(-c.bytes, c.seconds); });
  LayerChoices kept;
  double least_s = never_s;
  for (const LayerChoice& choice : choices) {
    if (choice.bytes <= 0 || choice.seconds >= least_s) continue;
    least_s = choice.seconds;
    kept.push_back(choice);
  }
  std::ranges::reverse(kept);
  return kept;
}

bool steeper(const LayerChoice& from, const LayerChoice& over, const LayerChoice& to) {
  return (over.seconds - from.seconds) * static_cast<double>(to.bytes - over.bytes) >=
         (to.seconds - over.seconds) * static_cast<double>(over.bytes - from.bytes);
}

/// Along the hull of choices in the order of pareto.
std::vector<LayerChoice> steps_along(const LayerChoices& choices) {
  LayerChoices corners{{}};
  for (const LayerChoice& choice : choices) {
    while (corners.size() > 1 && steeper(corners[corners.size() - 2], corners.back(), choice))
      corners.pop_back();
    corners.push_back(choice);
  }
  for (size_t i = corners.size() - 1; i > 0; --i) {
    corners[i].seconds -= corners[i - 1].seconds;
    corners[i].bytes -= corners[i - 1].bytes;
  }
  corners.erase(corners.begin());
  return corners;
}

class Chooser {
 public:
  Chooser(const std::vector<LayerChoices>& layers, int64_t bytes, int most_nodes)
      : bytes_(bytes), most_nodes_(most_nodes) {
    std::vector<size_t> order(layers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return layers[a] < layers[b]; });
    order_ = order;
    std::vector<LayerChoice> steps;
    for (const size_t layer : order) {
      like_last_.push_back(!choices_.empty() &&
                           layers[layer] == layers[order[choices_.size() - 1]]);
      choices_.push_back(like_last_.back() ? choices_.back() : pareto(layers[layer]));
      if (!like_last_.back()) steps = steps_along(choices_.back());
      for (const LayerChoice& step : steps) increments_.push_back({choices_.size() - 1, step});
    }
    std::ranges::stable_sort(increments_, cheaper, &Increment::more);
  }

  ChosenLayers run(const std::vector<LayerChoices>& layers) {
    ChosenLayers chosen;
    now_.assign(choices_.size(), -1);
    const double relaxed_s = relaxed(0, bytes_);
    chosen.enough = relaxed_s < never_s;
    if (chosen.enough) {
      begin_greedily();
      branch(0, bytes_, 0);
    } else {
      for (const LayerChoices& choices : choices_)
        best_.push_back(static_cast<int>(choices.size()) - 1);
    }
    chosen.choices.assign(layers.size(), -1);
    for (size_t i = 0; i < best_.size(); ++i) {
      if (best_[i] < 0) continue;
      const LayerChoice& choice = choices_[i][static_cast<size_t>(best_[i])];
      const LayerChoices& given = layers[order_[i]];
      chosen.choices[order_[i]] =
          static_cast<int>(std::ranges::find(given, choice) - given.begin());
      chosen.seconds += choice.seconds;
      chosen.bytes += choice.bytes;
    }
    const bool exact = chosen.enough && nodes_ <= most_nodes_;
    chosen.nodes = nodes_;
    chosen.steps = int64_t{nodes_} * static_cast<int64_t>(increments_.size());
    chosen.bound_s = exact || !chosen.enough ? chosen.seconds : relaxed_s;
    return chosen;
  }

 private:
  /// The least that layers from `first` on take to free so much, parts of choices allowed.
  double relaxed(size_t first, int64_t bytes) const {
    double sum_s = 0;
    for (const Increment& one : increments_) {
      if (bytes <= 0) break;
      if (one.layer < first) continue;
      const double part =
          std::min(1.0, static_cast<double>(bytes) / static_cast<double>(one.more.bytes));
      sum_s += part * one.more.seconds;
      bytes -= one.more.bytes;
    }
    return bytes > 0 ? never_s : sum_s;
  }

  /// Increments in the order of their cost until they free enough.
  void begin_greedily() {
    std::vector<int64_t> taken(choices_.size(), 0);
    int64_t left = bytes_;
    for (const Increment& one : increments_) {
      if (left <= 0) break;
      taken[one.layer] += one.more.bytes;
      left -= one.more.bytes;
    }
    best_.clear();
    best_s_ = 0;
    for (size_t layer = 0; layer < taken.size(); ++layer) {
      const auto at = std::ranges::find(choices_[layer], taken[layer], &LayerChoice::bytes);
      const bool any = taken[layer] > 0;
      best_.push_back(any ? static_cast<int>(at - choices_[layer].begin()) : -1);
      if (any) best_s_ += at->seconds;
    }
  }

  void branch(size_t layer, int64_t left, double spent_s) {
    if (++nodes_ > most_nodes_) return;
    if (left <= 0) {
      if (spent_s >= best_s_) return;
      best_s_ = spent_s;
      best_ = now_;
      return;
    }
    if (spent_s + relaxed(layer, left) >= best_s_ * (1 - rounding)) return;
    int most = static_cast<int>(choices_[layer].size()) - 1;
    if (like_last_[layer]) most = std::min(most, now_[layer - 1]);
    for (int choice = most; choice >= -1; --choice) {
      now_[layer] = choice;
      const LayerChoice taken =
          choice < 0 ? LayerChoice{} : choices_[layer][static_cast<size_t>(choice)];
      branch(layer + 1, left - taken.bytes, spent_s + taken.seconds);
    }
    now_[layer] = -1;
  }

  static constexpr double rounding = 1e-12;  // of sums of some hundred numbers
  const int64_t bytes_;
  const int most_nodes_;
  std::vector<size_t> order_;
  std::vector<bool> like_last_;  // the same choices as the layer before
  std::vector<LayerChoices> choices_;
  std::vector<Increment> increments_;  // cheapest bytes first
  std::vector<int> now_, best_;
  double best_s_ = never_s;
  int nodes_ = 0;
};

}  // namespace

bool cheaper(const LayerChoice& one, const LayerChoice& other) {
  return one.seconds * static_cast<double>(other.bytes) <
         other.seconds * static_cast<double>(one.bytes);
}

std::vector<LayerChoice> hull(LayerChoices choices) {
  return steps_along(pareto(std::move(choices)));
}

ChosenLayers choose_layers(const std::vector<LayerChoices>& layers, int64_t bytes, int most_nodes) {
  if (bytes <= 0) return {.choices = std::vector<int>(layers.size(), -1), .enough = true};
  return Chooser(layers, bytes, most_nodes).run(layers);
}

const ChosenLayers& KnownChoices::of(std::vector<LayerChoices> layers, int64_t bytes) {
  if (known_.size() > most_known) known_.clear();
  const auto [found, fresh] = known_.try_emplace({bytes, std::move(layers)});
  if (fresh) {
    found->second = choose_layers(found->first.second, bytes, most_nodes_);
    steps_ += found->second.steps;
  }
  return found->second;
}

}  // namespace penstock
