// The speeds of a layout's ranks on a cluster of heterogeneous devices.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/network/cluster.hpp"

namespace penstock {

/// Speeds of ranks: of a rank's replicas, which wait for one another, the slowest counts.
class RankSpeeds {
 public:
  /// Speeds relative to the device that was profiled; at least one.
  explicit RankSpeeds(std::vector<double> speeds);
  /// Speeds of the devices of `ranks` ranks of each replica.
  RankSpeeds(const Cluster& cluster, int ranks, int64_t replicas);

  int ranks() const { return static_cast<int>(relative_.size()); }
  /// Relative to the device that was profiled.
  double fastest() const { return fastest_; }
  /// Relative to the fastest: each, the least and the sum of them.
  const std::vector<double>& relative() const { return relative_; }
  double slowest() const { return slowest_; }
  double together() const { return together_; }
  bool equal() const { return slowest_ == 1; }

 private:
  double fastest_ = 1, slowest_ = 1, together_ = 1;
  std::vector<double> relative_;
};

}  // namespace penstock
