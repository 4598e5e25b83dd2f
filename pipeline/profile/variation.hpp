// What repeated times vary by. Pure functions.
//
// The profiler measures in rounds, in each F and B and then F, I and W of every unit, all ranks at
// the same time. The time of an action is taken to be a product whose factors have a mean of 1 and
// do not depend on one another:
//
//   mean x common (round) x own (round, rank) x jitter (round, rank, action)
//
// A machine that slows as a whole slows a round on all ranks, a rank that loses its core for a
// while slows its own, and jitter is what is left to the single action. A round takes about as long
// as a step of some microbatches, so a step draws `common` and `own` once. The product of means is
// the mean of the product: drawn times have the profile's mean, nothing is counted twice.
#pragma once

#include <cstddef>
#include <vector>

namespace penstock {

/// Values that are taken to be equally likely.
using Factors = std::vector<double>;

/// With fewer rounds nothing is said of variances.
inline constexpr size_t min_rounds = 4;
/// Values kept of a distribution.
inline constexpr size_t kept_factors = 16;

/// The means of `count` equal shares of the sorted values: the mean stays to rounding, and of the
/// variance all but what lies within a share. `values` is not empty.
Factors equal_shares(std::vector<double> values, size_t count = kept_factors);

/// The same with a mean of 1. Some value is above 0, none is below.
Factors of_mean_one(Factors factors);

/// The mean square deviation from the mean.
double variance(const Factors& values);

/// Factors of mean 1 with deviations `times` as large; none below 0.
Factors stretched(Factors factors, double times);

struct Variation {
  Factors rounds;               // each round's time over the mean round
  std::vector<Factors> jitter;  // by action and round: what is left, over its mean
};
/// Separates the rounds of one rank; `seconds[action][round]`, as many rounds of every action, at
/// least two. Deviations of jitter are stretched by what their number of degrees of freedom leaves
/// out: by sqrt(n / (n - 1)) of n rounds, whose mean is their own, and, of actions that vary alike,
/// by 1 / sqrt(1 - 2 w + sum of w^2), since an action of which w is the share of the round's time
/// moves the round with it (analysis of variance: Scheffe, 1959, chapter 4).
Variation separate(const std::vector<std::vector<double>>& seconds);

struct RoundParts {
  Factors common, own;  // means of 1; own of any rank
};
/// Parts of the rounds of all ranks, `rounds[rank][round]`, with moments: of R ranks and n rounds,
///   var(own) = sum of (f - mean over ranks)^2 / ((R - 1) (n - 1)) - jitter_variance
///   var(common) = sum of (mean over ranks - 1)^2 / (n - 1) - (var(own) + jitter_variance) / R
/// neither below 0. `jitter_variance` is what jitter alone gives to a round. Their values are the
/// measured deviations, stretched or shrunk to that variance. Of one rank all is its own: what it
/// would have in common with others is not known.
RoundParts round_parts(const std::vector<Factors>& rounds, double jitter_variance);

}  // namespace penstock
