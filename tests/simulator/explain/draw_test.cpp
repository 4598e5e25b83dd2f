// The drawing of a timeline shows the grid.
#include <gtest/gtest.h>

#include "simulator/explain/draw.hpp"
#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

using testing::chain_costs;
using testing::lowered;

Timeline one_f_one_b_timeline(int ranks, int microbatches) {
  return simulate(lowered(one_f_one_b, ranks, microbatches), chain_costs(ranks, 1, 2), {}).timeline;
}

TEST(Draw, OneFOneBLooksAsInThePapers) {
  EXPECT_EQ(draw(one_f_one_b_timeline(3, 3), 3, {.width = 30}),
            "rank 0 |F0F1F2........B0--..B1--..B2--|\n"
            "rank 1 |..F0F1....B0--F2B1--..B2--....|\n"
            "rank 2 |....F0B0--F1B1--F2B2--........|\n"
            "        0                       15.0 s\n");
}

TEST(Draw, WithColourTheKindIsTheColour) {
  EXPECT_EQ(draw(simulate(testing::rows("0F0 0B0"), chain_costs(1, 1, 2), {}).timeline, 1,
                 {.width = 9, .colour = true}),
            "rank 0 |\x1b[97;44mF0 \x1b[0m\x1b[30;48;5;208mB0    \x1b[0m|\n"
            "        0  3.00 s\n");
}

TEST(Draw, SeveralStagesOfARankAreTold) {
  const Timeline timeline =
      simulate(testing::rows("0F0 1F0 1B0 0B0"), chain_costs(2, 1, 1), {}).timeline;
  EXPECT_EQ(draw(timeline, 1, {.width = 16}),
            "rank 0 |0F0-1F0-1B0-0B0-|\n"
            "        0         4.00 s\n");
}

TEST(Draw, AColumnShowsWhatFillsMostOfIt) {
  // 64 microbatches in 8 columns: each column holds many actions, and never runs over its row.
  const std::string text = draw(one_f_one_b_timeline(2, 64), 2, {.width = 8});
  EXPECT_EQ(text.substr(0, text.find('\n')), "rank 0 |BBBBBBBB|");
}

TEST(Draw, NothingToDrawIsNothing) { EXPECT_EQ(draw({}, 2), ""); }

}  // namespace
}  // namespace penstock
