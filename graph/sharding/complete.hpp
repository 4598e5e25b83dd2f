// From a few pins to a layout of every value and parameter of a model.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"
#include "graph/sharding/pins.hpp"
#include "graph/sharding/signatures.hpp"

namespace penstock::sharding {

struct Converted {
  OperatorId before;  // which operator; their number for what is done at the end
  ValueId value;
  Layout from, to;     // it is held as `from` by then, and goes on being so
  bool again = false;  // the backward keeps it as `from`, and gathers it again where it needs it
  bool operator==(const Converted&) const = default;
};

/// How a job reads a model's first output.
enum class FirstOutput {
  any,     // each rank needs it whole
  logits,  // for a cross entropy over its last dimension, of which each rank may have a part
};

/// How a group of `parts` ranks runs a model on microbatches of `batch` samples. Blocks of a split
/// may depend on the batch, where a model merges it with another dimension, so that each size has
/// its own.
struct Completion {
  int64_t batch;
  int parts;
  /// How each of Graph::tensors is held between steps: parameters I, R or split, all others I. The
  /// gradient of one in R is summed over the group once a step.
  std::vector<Layout> tensors;
  /// The one that each operator takes; of assertions that nothing reads, which are left out, an
  /// empty one.
  std::vector<Signature> operators;
  std::vector<Converted> conversions;  // in order; updates of buffers end as I
  /// How each of Graph::outputs ends: I but for the first, which may be split where it is logits.
  std::vector<Layout> outputs;
  int64_t cost;  // of a microbatch: FLOPs of a rank, and as many as take its messages' time
  int64_t state_bytes = 0;  // of a rank: parameters, gradients and optimizer state
  /// Saved by a microbatch on a rank for its backward: values, each as it is made and gathered.
  int64_t saved_bytes = 0;
  int64_t weighed = 0;  // cost and bytes by their prices: what nothing is below where it is exact
  bool exact = false;   // nothing is cheaper; false where choices were left out
  int64_t states = 0;   // how many were looked at
};

/// As many sets of layouts of the values in use are kept at an operator; where there are more, the
/// costliest are dropped and the completion is not exact, nor is it where a value could have more
/// than 64 layouts.
constexpr size_t beam_width = 1024;

/// The cheapest completion that has all that is pinned: a dynamic programme along the operators
/// whose state is the set of layouts in which each value is held that is still read, so that a
/// conversion is paid once for all readers. A value that is pinned is converted where it is made.
/// Pins::costs say what is cheapest; work that is done once in a step of so many `microbatches`
/// costs each of them its share. Blocks that are alike are solved once. Deterministic. Throws
/// InputError for impossible pins, as resolve does, and for prices above max_price.
Completion complete(const Graph& graph, const Pins& pins, int64_t batch, int parts,
                    int64_t microbatches = 1, FirstOutput first = FirstOutput::any);

/// The highest price of a byte at which no completion's cost overflows: so high that memory decides
/// alone but for the smallest tensors.
int64_t max_price(const Graph& graph, int64_t batch);

/// Is a completion with these pins for another size one for microbatches of `batch` samples, too:
/// does every operator take its signature there, and does what is split divide?
bool holds_at(const Graph& graph, const Pins& pins, const Completion& completion, int64_t batch);

/// Is any operator, value or parameter split?
bool splits(const Completion& completion);
/// Do both give everything the same layouts, so that their ranks run the same graph?
bool same_layouts(const Completion& one, const Completion& other);

}  // namespace penstock::sharding
