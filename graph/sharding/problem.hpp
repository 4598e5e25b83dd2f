// The choices of completing: layouts that a value may be held in, signatures that an operator may
// take, and what they cost. Internal to complete.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"
#include "graph/sharding/pins.hpp"
#include "graph/sharding/signatures.hpp"

namespace penstock::sharding {

/// A set of a value's layouts, a bit for each of Choices::layouts.
using Held = uint64_t;
constexpr int max_layouts = 64;

/// The cost of a conversion that may not be: a weight that is split is read as it is split.
constexpr int64_t impossible = INT64_MAX;

struct Choices {
  std::vector<Layout> layouts;  // ascending
  /// From one to another, by places in `layouts`, forward and backward.
  std::vector<std::vector<int64_t>> conversion_costs;
  int place(const Layout& layout) const;  // -1 for one that is not there
  Held bit(const Layout& layout) const { return Held{1} << place(layout); }
};

struct Option {
  Signature signature;
  int64_t cost;
};

/// An operator; the last node reads the outputs and what buffers become.
struct Node {
  std::vector<ValueId> operands, results;
  std::vector<Option> options;  // none for assertions that nothing reads
};

struct Problem {
  const Graph& graph;
  int64_t batch;
  int parts;
  int64_t microbatches;  // of a step
  PinnedLayouts pinned;
  /// Values that are computed from parameters, and parameters. All others each rank has whole: to
  /// hold them otherwise costs nothing, forward or backward.
  std::vector<bool> varies;
  std::vector<bool> has_gradient = {};
  std::vector<bool> is_weight = {};  // parameters, and values that are computed from them alone
  std::vector<Node> nodes = {};
  std::vector<Choices> values = {};  // of those that vary
  bool has_all_layouts = true;       // false where a value had more than max_layouts

  bool is_parameter(ValueId value) const;
  /// A microbatch's share of what a training step pays for a parameter that is kept so: of its
  /// gradient's sum, where it is R.
  int64_t keeping_cost(ValueId parameter, const Layout& layout) const;
};

/// Splits are those that no block divides, those of pins, and all in blocks that operators make of
/// either, or that are read or made together with one of these.
Problem make_problem(const Graph& graph, const Pins& pins, int64_t batch, int parts,
                     int64_t microbatches);

}  // namespace penstock::sharding
