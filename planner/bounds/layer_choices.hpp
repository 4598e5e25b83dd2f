// The choices (RecomputeChoice) by which layers free so many bytes in the least time: a
// multiple-choice knapsack (H. Kellerer, U. Pferschy, D. Pisinger, Knapsack Problems, 2004, chapter
// 11), solved by branch and bound over its linear relaxation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace penstock {

/// A way to keep less of a layer.
struct LayerChoice {
  double seconds = 0;
  int64_t bytes = 0;    // freed
  int64_t working = 0;  // taken meanwhile
  /// Freed where its stage is recomputed at once, but not of a microbatch whose backward begins.
  int64_t at_once = 0;
  auto operator<=>(const LayerChoice&) const = default;

  /// The most that it frees of so many microbatches, the backwards of `turning` of which begin;
  /// `again` is there again then where it recomputes by itself.
  int64_t freed(int held, int turning, int64_t again = 0) const {
    return std::max(held * bytes - again, (held - turning) * at_once);
  }
};
using LayerChoices = std::vector<LayerChoice>;

/// Takes less time for each byte.
bool cheaper(const LayerChoice& one, const LayerChoice& other);

/// The steps along the lower convex hull of the choices, each with what it takes and frees more
/// than the one before, the cheapest bytes first: parts of them take no more than any choices that
/// free as much.
std::vector<LayerChoice> hull(LayerChoices choices);

struct ChosenLayers {
  std::vector<int> choices;  // of each layer its choice, -1: it keeps everything
  double seconds = 0;
  int64_t bytes = 0;    // freed, at least as many as asked for
  double bound_s = 0;   // nothing that frees as many takes less
  bool enough = false;  // else each layer frees the most that it can
  int nodes = 0;        // that were looked at
  int64_t steps = 0;    // each node looks at the steps of all hulls
};

inline constexpr int most_choice_nodes = 20'000;

/// The first of equal layers free most. Exact up to so many nodes of its tree, after which it takes
/// the best that it has found.
ChosenLayers choose_layers(const std::vector<LayerChoices>& layers, int64_t bytes,
                           int most_nodes = most_choice_nodes);

/// Knapsacks that were solved: those of splits much like each other are mostly the same.
class KnownChoices {
 public:
  explicit KnownChoices(int most_nodes = most_choice_nodes) : most_nodes_(most_nodes) {}
  /// As choose_layers; until the next one is asked for.
  const ChosenLayers& of(std::vector<LayerChoices> layers, int64_t bytes);
  /// ChosenLayers::steps of all that were not known.
  int64_t steps() const { return steps_; }
  void forget() { known_.clear(); }

 private:
  int most_nodes_;
  std::map<std::pair<int64_t, std::vector<LayerChoices>>, ChosenLayers> known_;
  int64_t steps_ = 0;
};

}  // namespace penstock
