#include "planner/bounds/layer_choices.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "planner/bounds/growing_choices.hpp"
#include "planner/bounds/recompute_bound.hpp"

namespace penstock {
namespace {

/// The least time by trying every choice of every layer.
double least_s(const std::vector<LayerChoices>& layers, int64_t bytes, size_t layer = 0) {
  if (layer == layers.size()) return bytes <= 0 ? 0 : std::numeric_limits<double>::infinity();
  double best_s = least_s(layers, bytes, layer + 1);
  for (const LayerChoice& choice : layers[layer])
    best_s = std::min(best_s, choice.seconds + least_s(layers, bytes - choice.bytes, layer + 1));
  return best_s;
}

/// Whole seconds and bytes, often equal, some choices worse than others in both.
std::vector<LayerChoices> random_layers(std::mt19937_64& random) {
  std::vector<LayerChoices> layers;
  const size_t count = 1 + random() % 6;
  while (layers.size() < count) {
    if (!layers.empty() && random() % 2 == 0) {
      layers.push_back(layers[random() % layers.size()]);
      continue;
    }
    LayerChoices& choices = layers.emplace_back();
    for (size_t left = random() % 4; left > 0; --left)
      choices.push_back(
          {static_cast<double>(random() % 20), 1 + static_cast<int64_t>(random() % 30)});
  }
  return layers;
}

TEST(LayerChoices, TakeNoLongerThanTryingEveryOneFinds) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 4000; ++i) {
    SCOPED_TRACE(i);
    const std::vector<LayerChoices> layers = random_layers(random);
    const auto bytes = static_cast<int64_t>(random() % 120);
    const double best_s = least_s(layers, bytes);
    const ChosenLayers chosen = choose_layers(layers, bytes);
    ASSERT_EQ(chosen.enough, best_s < std::numeric_limits<double>::infinity());
    double seconds = 0;
    int64_t freed = 0;
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      if (chosen.choices[layer] < 0) continue;
      const LayerChoice& choice = layers[layer][static_cast<size_t>(chosen.choices[layer])];
      seconds += choice.seconds;
      freed += choice.bytes;
    }
    EXPECT_EQ(chosen.seconds, seconds);
    EXPECT_EQ(chosen.bytes, freed);
    if (!chosen.enough) continue;
    EXPECT_GE(freed, bytes);
    EXPECT_EQ(seconds, best_s);
    EXPECT_EQ(chosen.bound_s, best_s);
  }
}

TEST(LayerChoices, FreeTheMostWhereThatIsNotEnough) {
  const ChosenLayers chosen = choose_layers({{{1, 5}, {2, 9}}, {}, {{3, 4}}}, 14);
  EXPECT_FALSE(chosen.enough);
  EXPECT_EQ(chosen.choices, (std::vector<int>{1, -1, 0}));
  EXPECT_EQ(chosen.bytes, 13);
}

TEST(LayerChoices, OfEqualLayersTheFirstOnesFreeMost) {
  const LayerChoices layer = {{1, 2}, {5, 6}};
  EXPECT_EQ(choose_layers({layer, layer, layer}, 8).choices, (std::vector<int>{1, 0, -1}));
}

TEST(LayerChoices, OfManyThatDifferAreNeverBelowTheirBound) {
  std::mt19937_64 random(2);
  std::vector<LayerChoices> layers;
  std::vector<RecomputeBound::Unit> steps;
  for (int layer = 0; layer < 400; ++layer) {
    LayerChoices& choices = layers.emplace_back();
    for (int choice = 1; choice <= 3; ++choice)
      choices.push_back({1e-3 * static_cast<double>(random() % 1000) + choice,
                         static_cast<int64_t>(random() % 1000) + 800 * choice});
    for (const LayerChoice& step : hull(choices))
      steps.push_back({step.seconds, static_cast<double>(step.bytes)});
  }
  const int64_t bytes = 400'000;
  const ChosenLayers chosen = choose_layers(layers, bytes);
  EXPECT_TRUE(chosen.enough);
  EXPECT_GE(chosen.bytes, bytes);
  EXPECT_LE(chosen.bound_s, chosen.seconds);
  EXPECT_NEAR(chosen.bound_s, RecomputeBound(steps).seconds(bytes), 1e-9 * chosen.bound_s);
  EXPECT_LT(chosen.seconds, chosen.bound_s * 1.01);  // one of 400 layers is not whole there
}

/// What choices free where so many microbatches of each layer are held.
int64_t freed(const std::vector<LayerChoices>& layers, const std::vector<int>& choices,
              const std::vector<int>& held) {
  int64_t bytes = 0;
  for (size_t layer = 0; layer < layers.size(); ++layer)
    if (choices[layer] >= 0)
      bytes += held[layer] * layers[layer][static_cast<size_t>(choices[layer])].bytes;
  return bytes;
}

int64_t most_freed(const std::vector<LayerChoices>& layers, const std::vector<int>& held) {
  int64_t bytes = 0;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    int64_t most = 0;
    for (const LayerChoice& choice : layers[layer]) most = std::max(most, choice.bytes);
    bytes += held[layer] * most;
  }
  return bytes;
}

TEST(GrowingChoices, FreeMoreWhereThatIsPossibleAndNoLessAtOtherMoments) {
  std::mt19937_64 random(3);
  KnownChoices known;
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE(i);
    const std::vector<LayerChoices> layers = random_layers(random);
    std::vector<std::vector<int>> moments(3, std::vector<int>(layers.size()));
    for (std::vector<int>& held : moments)
      for (int& count : held) count = static_cast<int>(random() % 4);
    GrowingChoices growing(layers);
    size_t last = moments.size();
    std::vector<int> before = growing.choices();  // those for the moments before the last
    for (int step = 0; step < 8; ++step) {
      const size_t at = random() % moments.size();
      const std::vector<int>& held = moments[at];
      if (at != last) before = growing.choices();
      last = at;
      const int64_t freed_yet = freed(layers, growing.choices(), held);
      const auto bytes = 1 + static_cast<int64_t>(random() % 20);
      const bool more = growing.free_more(held, bytes, known);
      const int64_t freed_now = freed(layers, growing.choices(), held);
      if (!more) {
        EXPECT_EQ(freed_now, freed_yet);
        EXPECT_EQ(freed_now, most_freed(layers, held));
        ++refused;
        continue;
      }
      EXPECT_GE(freed_now, std::min(freed_yet + bytes, most_freed(layers, held)));
      for (const std::vector<int>& other : moments)
        EXPECT_GE(freed(layers, growing.choices(), other), freed(layers, before, other));
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(GrowingChoices, TakeTheLeastTimeWhereOneMomentCounts) {
  std::mt19937_64 random(4);
  KnownChoices known;
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE(i);
    const std::vector<LayerChoices> layers = random_layers(random);
    GrowingChoices growing(layers);
    const std::vector<int> one(layers.size(), 1);
    int64_t asked = 0;
    while (growing.free_more(one, 7, known)) {
      asked += 7;
      const ChosenLayers best = choose_layers(layers, asked);
      EXPECT_EQ(growing.choices(), best.choices);
      asked = freed(layers, growing.choices(), one);
    }
  }
}

}  // namespace
}  // namespace penstock
