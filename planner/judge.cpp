#include "planner/judge.hpp"

#include <cmath>
#include <numeric>

#include "pipeline/profile/variation.hpp"
#include "simulator/noise/step_sampler.hpp"

namespace penstock {

namespace {

/// The same for all plans.
constexpr uint64_t seed = 0;

/// The variance of one plan's step over the other's, number by number.
double variance_of_quotient(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> quotients;
  for (size_t i = 0; i < one.size(); ++i) quotients.push_back(one[i] / other[i]);
  const auto n = static_cast<double>(one.size());
  return variance(quotients) * n / (n - 1);
}

}  // namespace

std::optional<Verdict> judged(const Profile& profile, const Cluster* cluster, const Plan& plan,
                              const Slicing& slicing, const Costs& costs, const Network& network) {
  const auto noise = step_noise(profile, cluster, plan, slicing, costs);
  if (!noise) return std::nullopt;
  StepSampler sampler(lowered_program(plan, slicing), costs, network, *noise, plan.data_parallel);
  Verdict verdict;
  for (int number = 0; number < judged_steps; ++number) {
    verdict.drawn_s.push_back(sampler.drawn_s(seed, number));
    verdict.shifted_s.push_back(sampler.shifted_s(seed, number));
  }
  verdict.expected_s = std::accumulate(verdict.drawn_s.begin(), verdict.drawn_s.end(), 0.0) /
                       static_cast<double>(judged_steps);
  return verdict;
}

double standard_error(const Verdict& one, const Verdict& other) {
  return std::sqrt(variance_of_quotient(one.shifted_s, other.shifted_s) +
                   variance_of_quotient(one.drawn_s, other.drawn_s) / judged_steps);
}

}  // namespace penstock
