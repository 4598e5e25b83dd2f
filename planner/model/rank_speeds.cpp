#include "planner/model/rank_speeds.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock {

namespace {

std::vector<double> slowest_replicas(const Cluster& cluster, int ranks, int64_t replicas) {
  std::vector<double> speeds;
  speeds.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    speeds.push_back(cluster.slowest_speed(rank, ranks, replicas));
  return speeds;
}

}  // namespace

RankSpeeds::RankSpeeds(std::vector<double> speeds) : relative_(std::move(speeds)) {
  fastest_ = *std::ranges::max_element(relative_);
  for (double& speed : relative_) speed /= fastest_;
  slowest_ = *std::ranges::min_element(relative_);
  together_ = std::accumulate(relative_.begin(), relative_.end(), 0.0);
}

RankSpeeds::RankSpeeds(const Cluster& cluster, int ranks, int64_t replicas)
    : RankSpeeds(slowest_replicas(cluster, ranks, replicas)) {}

}  // namespace penstock
