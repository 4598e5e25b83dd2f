// Separation of repeated times into what ranks share, what is their own, and jitter.
#include "pipeline/profile/variation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace penstock {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// Sums of a few hundred numbers near 1, each rounded by 2^-53.
constexpr double rounding = 1e-12;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(EqualShares, AreTheSortedValuesWhereThereAreAsMany) {
  EXPECT_THAT(equal_shares({3, 1, 2, 4}, 4), ElementsAre(1, 2, 3, 4));
}

TEST(EqualShares, AreMeansOfNeighboursWhereThereAreMoreAndRepeatThemWhereThereAreFewer) {
  EXPECT_THAT(equal_shares({6, 5, 4, 3, 2, 1}, 3), ElementsAre(1.5, 3.5, 5.5));
  EXPECT_THAT(equal_shares({1, 3}, 4), ElementsAre(1, 1, 3, 3));
  EXPECT_THAT(equal_shares({0, 3, 6}, 2), ElementsAre(1, 5)) << "half of 3 in either";
}

TEST(EqualShares, KeepTheMeanAndNeverAddVariance) {
  std::mt19937 random(1);
  for (const size_t count : {1, 7, 16, 40, 81}) {
    std::vector<double> values(count);
    for (double& value : values) value = std::exp(std::normal_distribution<>()(random));
    const Factors shares = equal_shares(values);
    EXPECT_EQ(shares.size(), kept_factors);
    EXPECT_NEAR(mean_of(shares), mean_of(values), rounding * mean_of(values));
    EXPECT_LE(variance(shares), variance(values) + rounding * mean_of(values) * mean_of(values));
  }
}

TEST(Separate, FindsRoundsAloneWhereAllActionsMoveTogether) {
  const Variation found = separate({{1, 2, 3, 2}, {10, 20, 30, 20}, {0, 0, 0, 0}});
  EXPECT_THAT(found.rounds, ElementsAre(0.5, 1, 1.5, 1));
  ASSERT_EQ(found.jitter.size(), 3U);
  for (const Factors& jitter : found.jitter) {
    for (const double factor : jitter) EXPECT_NEAR(factor, 1, rounding);
  }
}

TEST(Separate, LeavesAnActionThatIsAllOfItsRoundWithoutJitter) {
  EXPECT_THAT(separate({{1, 2, 3, 2}}).jitter.front(), Each(1));
}

/// Two values, as likely, around 1 with that standard deviation.
double either(std::mt19937& random, double deviation) {
  return random() % 2 == 0 ? 1 + deviation : 1 - deviation;
}

/// Estimates of one variance, over many profiles.
struct Estimates {
  std::vector<double> values;
  /// Four standard errors of their mean; and what products of deviations, which moments leave out,
  /// may add, relatively as much as the largest variances (0.01).
  double tolerance(double truth) const {
    return 4 * std::sqrt(variance(values) / static_cast<double>(values.size())) + 0.02 * truth;
  }
};

TEST(Separate, AndRoundPartsFindTheVariancesThatTimesWereMadeWith) {
  constexpr double common = 0.05, own = 0.08, jitter = 0.1;
  constexpr size_t ranks = 2, rounds = 200, actions = 20;
  std::mt19937 random(7);
  Estimates common_found, own_found, jitter_found;
  for (int profile = 0; profile < 300; ++profile) {
    std::vector<std::vector<std::vector<double>>> seconds(
        ranks, std::vector<std::vector<double>>(actions, std::vector<double>(rounds)));
    for (size_t i = 0; i < rounds; ++i) {
      const double shared = either(random, common);
      for (size_t rank = 0; rank < ranks; ++rank) {
        const double factor = shared * either(random, own);
        for (size_t k = 0; k < actions; ++k)
          seconds[rank][k][i] = 3 * factor * either(random, jitter);
      }
    }
    std::vector<Factors> all;
    double sum = 0;
    for (const auto& rank : seconds) {
      const Variation found = separate(rank);
      all.push_back(found.rounds);
      for (const Factors& action : found.jitter) sum += variance(action);
    }
    jitter_found.values.push_back(sum / (ranks * actions));
    const RoundParts parts = round_parts(all, jitter * jitter / actions);
    common_found.values.push_back(variance(parts.common));
    own_found.values.push_back(variance(parts.own));
  }
  const auto expect = [](const Estimates& found, double truth, const char* what) {
    EXPECT_NEAR(mean_of(found.values), truth, found.tolerance(truth)) << what;
  };
  // Where estimates were cut off at 0, their mean would be too large.
  ASSERT_EQ(std::ranges::count(common_found.values, 0.0), 0);
  ASSERT_EQ(std::ranges::count(own_found.values, 0.0), 0);
  expect(common_found, common * common, "common");
  expect(own_found, own * own, "own");
  expect(jitter_found, jitter * jitter, "jitter");
}

TEST(RoundParts, AddUpToTheVarianceOfARankSoThatNothingCountsTwice) {
  const std::vector<Factors> rounds{{0.9, 1.05, 1.2, 0.85}, {1.02, 0.93, 1.15, 0.9}};
  constexpr double jitter = 0.001;
  const RoundParts parts = round_parts(rounds, jitter);
  const double n = 4;
  const double measured = (variance(rounds[0]) + variance(rounds[1])) / 2 * n / (n - 1);
  EXPECT_GT(variance(parts.common), 0);
  EXPECT_NEAR(variance(parts.common) + variance(parts.own) + jitter, measured, rounding);
  EXPECT_NEAR(mean_of(parts.common), 1, rounding);
  EXPECT_NEAR(mean_of(parts.own), 1, rounding);
}

TEST(RoundParts, OfRanksThatMoveAlikeAreCommonAndOfOpposedOnesTheirOwn) {
  const Factors up{0.9, 1.1, 0.8, 1.2}, down{1.1, 0.9, 1.2, 0.8};
  const RoundParts alike = round_parts({up, up}, 0);
  EXPECT_NEAR(variance(alike.own), 0, rounding);
  EXPECT_NEAR(variance(alike.common), variance(up) * 4 / 3, rounding);
  const RoundParts opposed = round_parts({up, down}, 0);
  EXPECT_NEAR(variance(opposed.common), 0, rounding);
  EXPECT_NEAR(variance(opposed.own), variance(up) * 8 / 3, rounding);
}

TEST(RoundParts, OfOneRankAreItsOwn) {
  const Factors rank{0.9, 1.1, 0.8, 1.2};
  const RoundParts parts = round_parts({rank}, 0);
  EXPECT_THAT(parts.common, ElementsAre(1));
  EXPECT_NEAR(variance(parts.own), variance(rank) * 4 / 3, rounding);
  EXPECT_THAT(round_parts({rank}, 1).own, Each(1)) << "all of it is jitter";
}

}  // namespace
}  // namespace penstock
