// Completions as pins, and those that prices of memory lead to.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/pt2/pt2.hpp"
#include "graph/sharding/choice/chosen_pins.hpp"
#include "graph/sharding/choice/prices.hpp"
#include "graph/sharding/complete.hpp"
#include "tests/models/models.hpp"

namespace penstock::sharding {
namespace {

std::string text(const std::vector<Pin>& pins) {
  std::string text;
  for (const Pin& pin : pins) text += fmt::format("{}: {}\n", pin.pattern, pin.layout.str());
  return text;
}

TEST(Prices, TheFastCostsLessTimeAndTheSmallHoldsLess) {
  for (const char* name : {"gpt2", "bert", "gpt3-meta"}) {
    PENSTOCK_MODEL(path, name);
    const Graph graph = read_pt2(path);
    const std::vector<Pins> found = fast_and_small(graph, {}, 1, 8, 2, FirstOutput::any);
    ASSERT_EQ(found.size(), 2U) << name;
    EXPECT_EQ(found[0], Pins());
    EXPECT_TRUE(found[1].gathers_again) << name;
    const Completion fast = complete(graph, found[0], 1, 2),
                     small = complete(graph, found[1], 1, 2);
    EXPECT_LE(fast.cost, small.cost) << name;
    EXPECT_LT(small.state_bytes + small.saved_bytes, fast.state_bytes + fast.saved_bytes) << name;
  }
}

TEST(Prices, WhatIsAskedForIsTakenAlone) {
  PENSTOCK_MODEL(path, "gpt2");
  const Pins asked{{{"*.c_fc.weight", Layout::split(1)}}, {}, {}};
  EXPECT_EQ(fast_and_small(read_pt2(path), asked, 1, 8, 2, FirstOutput::any),
            std::vector<Pins>{asked});
}

TEST(ChosenPins, NameAllBlocksThatAreAlike) {
  PENSTOCK_MODEL(path, "gpt3-meta");
  const Pins found = pins_of(read_pt2(path), {{}, {}, {.state_byte = 1000}}, 4, 8, 8);
  EXPECT_EQ(found.costs, Costs());
  EXPECT_EQ(text(found.parameters),
            "token_embedding.weight: S(1)\n"
            "*.qkv.weight: S(0, 3)\n"
            "*.projection.weight: S(1)\n"
            "*.0.weight: S(0)\n"
            "head.weight: S(1)\n");
  EXPECT_EQ(text(found.values), "");
}

TEST(ChosenPins, LeadToWhatPricesLeadToAndNoneCanBeLeftOut) {
  for (const char* name : {"gpt2", "bert", "llama", "vit", "moe", "unet", "transformer-text"}) {
    PENSTOCK_MODEL(path, name);
    const Graph graph = read_pt2(path);
    const Pins asked{{}, {}, {.state_byte = 10'000}};
    const Completion chosen = complete(graph, asked, 4, 2, 8);
    const Pins found = pins_of(graph, asked, 4, 2, 8);
    EXPECT_EQ(found.costs, Costs()) << name;
    EXPECT_TRUE(same_layouts(complete(graph, found, 4, 2, 8), chosen)) << name;
    for (size_t i = 0; i < found.parameters.size(); ++i) {
      Pins fewer = found;
      fewer.parameters.erase(fewer.parameters.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_FALSE(same_layouts(complete(graph, fewer, 4, 2, 8), chosen))
          << name << ": " << found.parameters[i].pattern;
    }
  }
}

TEST(ChosenPins, PinValuesWhereWeightsDoNotDecide) {
  PENSTOCK_MODEL(path, "gpt2");
  const Graph graph = read_pt2(path);
  const Pins asked{{}, {}, {.state_byte = 1000, .saved_byte = 1000}};
  const Pins found = pins_of(graph, asked, 4, 2, 8);
  EXPECT_FALSE(found.values.empty());
  EXPECT_TRUE(same_layouts(complete(graph, found, 4, 2, 8), complete(graph, asked, 4, 2, 8)));
}

TEST(ChosenPins, KeepThePricesWhereNoPinsAreEnough) {
  PENSTOCK_MODEL(path, "unet");
  const Pins asked{{}, {}, {.state_byte = 1000, .saved_byte = 1000}};
  EXPECT_EQ(pins_of(read_pt2(path), asked, 4, 2, 8), asked);
}

}  // namespace
}  // namespace penstock::sharding
