// The communicators that a plan needs, and the order in which they are made.
#pragma once

#include <string>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/program/program.hpp"

namespace penstock {

/// A one-way lane between two ranks of the run, for activations or gradients, with a communicator
/// and a stream of its own: no transfer waits for one of another lane.
struct LaneKey {
  int from = 0, to = 0;
  bool gradients = false;
  auto operator<=>(const LaneKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// `0-1-activations`: the lane's name, and its key in the store behind `comm/`.
std::string to_string(const LaneKey& lane);

/// The lanes of the SENDs of all replicas and parts, and for a program that trains those of
/// broadcast parameters (backend/executor/update/broadcast.hpp), ascending.
std::vector<LaneKey> lanes_of(const Program& lowered, int replicas, const Slicing& slicing = {},
                              int parts = 1);

/// The number of ends: two for each lane.
inline int ends_of(const std::vector<LaneKey>& lanes) { return 2 * static_cast<int>(lanes.size()); }

/// An edge colouring of the graph of ranks and lanes: every lane in one round, no rank twice in a
/// round. All ranks make the rounds in this order, so that no rank waits in two of them. Greedy in
/// ascending order: there are fewer than twice as many rounds as lanes at the busiest rank.
std::vector<std::vector<LaneKey>> rounds_of(std::vector<LaneKey> lanes);

/// The CTAs of each lane, 1 to 4, the same on every rank: spinning lanes must leave the GPU to
/// compute.
int ctas_of(const std::vector<LaneKey>& lanes);

}  // namespace penstock
