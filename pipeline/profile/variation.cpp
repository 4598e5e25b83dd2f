#include "pipeline/profile/variation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace penstock {

namespace {

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double mean_of(const std::vector<double>& values) {
  return sum_of(values) / static_cast<double>(values.size());
}

Factors with_variance(const Factors& factors, double wanted) {
  const double has = variance(factors);
  return stretched(factors, has > 0 ? std::sqrt(std::max(0.0, wanted) / has) : 0);
}

/// The mean over ranks of each round.
Factors together(const std::vector<Factors>& rounds) {
  Factors mean(rounds.front().size(), 0);
  for (const Factors& rank : rounds) {
    for (size_t i = 0; i < mean.size(); ++i)
      mean[i] += rank[i] / static_cast<double>(rounds.size());
  }
  return mean;
}

}  // namespace

Factors equal_shares(std::vector<double> values, size_t count) {
  std::ranges::sort(values);
  const double width = static_cast<double>(values.size()) / static_cast<double>(count);
  Factors shares;
  for (size_t share = 0; share < count; ++share) {
    const double begin = static_cast<double>(share) * width, end = begin + width;
    double sum = 0;
    const auto last = std::min(values.size(), static_cast<size_t>(std::ceil(end)));
    for (auto i = static_cast<size_t>(begin); i < last; ++i) {
      const auto at = static_cast<double>(i);
      sum += values[i] * std::max(0.0, std::min(end, at + 1) - std::max(begin, at));
    }
    shares.push_back(sum / width);
  }
  return shares;
}

Factors of_mean_one(Factors factors) {
  const double mean = mean_of(factors);
  for (double& factor : factors) factor /= mean;
  return factors;
}

double variance(const Factors& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size());
}

Factors stretched(Factors factors, double times) {
  const double mean = mean_of(factors);
  for (double& factor : factors) factor = std::max(0.0, 1 + (factor / mean - 1) * times);
  return of_mean_one(std::move(factors));
}

Variation separate(const std::vector<std::vector<double>>& seconds) {
  const size_t rounds = seconds.front().size();
  Variation out{.rounds = Factors(rounds, 0), .jitter = {}};
  for (const std::vector<double>& action : seconds) {
    for (size_t i = 0; i < rounds; ++i) out.rounds[i] += action[i];
  }
  const double round_s = mean_of(out.rounds);
  if (!(round_s > 0)) return {Factors(rounds, 1), {seconds.size(), Factors(rounds, 1)}};
  out.rounds = of_mean_one(std::move(out.rounds));
  double squares = 0;
  for (const std::vector<double>& action : seconds)
    squares += std::pow(mean_of(action) / round_s, 2);
  const auto n = static_cast<double>(rounds);
  for (const std::vector<double>& action : seconds) {
    Factors& jitter = out.jitter.emplace_back(action);
    for (size_t i = 0; i < rounds; ++i)
      jitter[i] = out.rounds[i] > 0 ? action[i] / out.rounds[i] : 0;
    const double left = 1 - 2 * mean_of(action) / round_s + squares;
    // An action that is all of its round has no jitter of its own.
    const bool alone = left < 1e-6, none = !(mean_of(jitter) > 0);
    jitter = none ? Factors(rounds, 1)
                  : stretched(std::move(jitter), alone ? 0 : std::sqrt(n / (n - 1) / left));
  }
  return out;
}

RoundParts round_parts(const std::vector<Factors>& rounds, double jitter_variance) {
  const auto ranks = static_cast<double>(rounds.size());
  const auto n = static_cast<double>(rounds.front().size());
  const Factors common = together(rounds);
  const double mean_variance = variance(common) * n / (n - 1);
  if (rounds.size() == 1) return {{1}, with_variance(common, mean_variance - jitter_variance)};
  Factors own;
  for (const Factors& rank : rounds) {
    for (size_t i = 0; i < rank.size(); ++i) own.push_back(1 + rank[i] - common[i]);
  }
  const double own_variance = variance(own) * ranks * n / ((ranks - 1) * (n - 1));
  return {with_variance(common, mean_variance - own_variance / ranks),
          with_variance(own, own_variance - jitter_variance)};
}

}  // namespace penstock
