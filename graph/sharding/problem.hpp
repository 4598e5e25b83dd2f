// The choices of completing: layouts that a value may be held in, signatures that an operator may
// take, and what they cost. Internal to complete.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"
#include "graph/sharding/complete.hpp"
#include "graph/sharding/conversions.hpp"
#include "graph/sharding/pins.hpp"
#include "graph/sharding/saved.hpp"
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
  /// By layout: of a value that is made so, or a parameter that is kept so between steps.
  std::vector<int64_t> holding_costs;
  int place(const Layout& layout) const;  // -1 for one that is not there
  bool operator==(const Choices&) const = default;
};

struct Option {
  Signature signature;
  int64_t cost;
  int64_t saved_bytes = 0;                       // by what is no operator: the job's loss
  std::vector<int> operands = {}, results = {};  // places of layouts; -1 for what does not vary
  bool operator==(const Option&) const = default;
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
  Costs costs;
  bool random_by_part, gather_again;
  PinnedLayouts pinned;
  /// Values that are computed from parameters, and parameters. All others each rank has whole: to
  /// hold them otherwise costs nothing, forward or backward.
  std::vector<bool> varies;
  std::vector<bool> has_gradient = {};
  std::vector<bool> is_weight = {};  // parameters, and values that are computed from them alone
  std::vector<Saved> saved = {};     // by value
  std::vector<Node> nodes = {};
  std::vector<Choices> choices = {};  // values that are alike share them
  std::vector<int> choices_of = {};   // by value; -1 for what does not vary
  std::vector<int> pin = {};          // by value: the place of the layout that is pinned, or -1
  bool has_all_layouts = true;        // false where a value had more than max_layouts

  const Choices& of(ValueId value) const { return choices[choices_of[value]]; }
  bool is_parameter(ValueId value) const;
  /// Bytes of a rank.
  int64_t state_bytes(const StoredTensor& parameter, const Layout& layout) const;
  int64_t saved_bytes(ValueId made, const Layout& layout) const;
  /// Is it an all-gather that the backward does again, so that nothing is saved of its result?
  bool gathers_again(ValueId value, const Conversion& conversion) const;
  /// Bytes that a conversion adds to those that are saved.
  int64_t saved_bytes(ValueId value, const Conversion& conversion) const;
};

/// Throws as complete does.
Problem make_problem(const Graph& graph, const Pins& pins, int64_t batch, int parts,
                     int64_t microbatches, FirstOutput first);

}  // namespace penstock::sharding
