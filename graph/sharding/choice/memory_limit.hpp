// Completions that fit a rank's memory, by the price of a byte.
//
// A price leads to completions that hold less and cost more: those that no mixture of two others
// beats, and the same that a limit of memory would ask for.
#pragma once

#include <cstdint>

#include "graph/sharding/complete.hpp"

namespace penstock::sharding {

struct MemoryLimit {
  int64_t bytes;          // of a rank: state, and what microbatches save
  int64_t in_flight = 1;  // microbatches that have saved values for their backward, at most
};

struct Fitting {
  Completion completion;
  Pins pins;  // that lead to it: those that were given, with prices
  bool fits;  // false: nothing that was found does, and this holds the least
};

/// State, and what all microbatches in flight save.
int64_t held_bytes(const Completion& completion, int64_t in_flight);

/// The cheapest completion found that fits. Tries no price, the highest, and those between at which
/// a dearer and smaller completion is worth as much as a cheaper and larger one, until there is
/// none between the two nearest to the limit: some ten completions. Prices among the
/// pins do not count. Throws as complete does.
Fitting complete_within(const MemoryLimit& limit, const Graph& graph, const Pins& pins,
                        int64_t batch, int parts, int64_t microbatches = 1);

/// No pins, without prices and with the highest for any batch up to `max_batch`, with which ranks
/// hold least: those of both that lead to different completions at `batch`. Where pins or prices
/// are given, these alone. Throws as complete does.
std::vector<Pins> priced(const Graph& graph, const Pins& pins, int64_t batch, int64_t max_batch,
                         int parts);

}  // namespace penstock::sharding
