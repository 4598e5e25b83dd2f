// Completions within a limit of memory, and as pins.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/pt2/pt2.hpp"
#include "graph/sharding/choice/chosen_pins.hpp"
#include "graph/sharding/choice/memory_limit.hpp"
#include "tests/models/models.hpp"

namespace penstock::sharding {
namespace {

std::string text(const std::vector<Pin>& pins) {
  std::string text;
  for (const Pin& pin : pins) text += fmt::format("{}: {}\n", pin.pattern, pin.layout.str());
  return text;
}

TEST(MemoryLimit, AboveWhatTimeAloneHoldsTakesThat) {
  PENSTOCK_MODEL(path, "gpt2");
  const Graph graph = read_pt2(path);
  const Completion fastest = complete(graph, {}, 4, 2, 8);
  const Fitting found = complete_within({held_bytes(fastest, 2), 2}, graph, {}, 4, 2, 8);
  EXPECT_TRUE(found.fits);
  EXPECT_EQ(found.pins, Pins());
  EXPECT_EQ(found.completion.cost, fastest.cost);
}

TEST(MemoryLimit, LessMemoryCostsMoreAndIsKept) {
  PENSTOCK_MODEL(path, "gpt2");
  const Graph graph = read_pt2(path);
  const int64_t most = held_bytes(complete(graph, {}, 4, 2, 8), 2);
  int64_t cost = 0, fitting = 0;
  for (const int64_t percent : {100, 90, 80, 70, 60, 50}) {
    const int64_t limit = most * percent / 100;
    const Fitting found = complete_within({limit, 2}, graph, {}, 4, 2, 8);
    EXPECT_EQ(found.fits, held_bytes(found.completion, 2) <= limit);
    EXPECT_GE(found.completion.cost, cost);
    cost = found.completion.cost;
    fitting += found.fits;
  }
  EXPECT_GE(fitting, 4);
}

TEST(MemoryLimit, BelowAllTakesTheSmallest) {
  PENSTOCK_MODEL(path, "gpt2");
  const Graph graph = read_pt2(path);
  const Fitting found = complete_within({1, 1}, graph, {}, 4, 2, 8);
  EXPECT_FALSE(found.fits);
  const int64_t price = max_price(graph, 4);
  const Completion smallest =
      complete(graph, {{}, {}, {.state_byte = price, .saved_byte = price}}, 4, 2, 8);
  EXPECT_EQ(held_bytes(found.completion, 1), held_bytes(smallest, 1));
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
