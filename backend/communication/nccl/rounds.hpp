// Which communicators a plan needs, and in which order they are made.
#pragma once

#include <string>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/program/program.hpp"

namespace penstock {

/// A one-way lane between two ranks of the run, of activations or gradients. It has a communicator
/// and a stream of its own: no transfer waits for one of another lane.
struct LaneKey {
  int from = 0, to = 0;
  bool gradients = false;
  auto operator<=>(const LaneKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// `0-1-activations`: the lane's name, and its key in the store behind `comm/`.
std::string to_string(const LaneKey& lane);

/// The lanes of the SENDs of all replicas, and where it trains those of shared parameters that are
/// transmitted, ascending.
std::vector<LaneKey> lanes_of(const Program& lowered, int replicas, const Slicing& slicing = {});

/// Each has two.
inline int ends_of(const std::vector<LaneKey>& lanes) { return 2 * static_cast<int>(lanes.size()); }

/// An edge colouring of the graph of ranks and lanes: every lane in one round, no rank twice in a
/// round. Made round after round, in this order on every rank, no rank ever waits in two. Greedy in
/// ascending order, so there are fewer than twice as many rounds as lanes at the busiest rank.
std::vector<std::vector<LaneKey>> rounds_of(std::vector<LaneKey> lanes);

/// So many CTAs each, 1 to 4: spinning lanes must leave the GPU to the computing. The same on every
/// rank.
int ctas_of(const std::vector<LaneKey>& lanes);

}  // namespace penstock
