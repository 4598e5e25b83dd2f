// Layouts that a user gives to parameters, and to what modules return, and by which costs the
// others are chosen.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "graph/sharding/layout.hpp"

namespace penstock::sharding {

struct Pin {
  /// A name in which `*` stands for any text and `?` for a letter. Of parameters, theirs or that of
  /// a module that has them; of values, that of a module that returns them, or of an operator where
  /// no module has it.
  std::string pattern;
  Layout layout;
  std::string place = {};  // in the file that it is from, for messages; the pattern unless given
  const std::string& named() const { return place.empty() ? pattern : place; }
  /// Wherever they are from.
  bool operator==(const Pin& other) const {
    return pattern == other.pattern && layout == other.layout;
  }
};

/// Bytes that are held for each byte of a trained parameter, itself included: as many as with AdamW
/// in the parameter's own type. A frozen one holds its own alone.
inline constexpr int64_t state_bytes_per_byte = 4;

/// The costs that completing weighs, in FLOPs of a rank in a microbatch. Whole numbers, so that the
/// result is the same everywhere.
struct Costs {
  int64_t sent_byte = 1000;  // FLOPs in the time of a byte: 400 TFLOP/s beside 400 GB/s
  int64_t state_byte = 0;    // the price of a byte of parameters, gradients, optimizer state
  int64_t saved_byte = 0;    // the price of a byte that a microbatch saves for its backward
  bool operator==(const Costs&) const = default;
};

struct Pins {
  std::vector<Pin> parameters;
  /// A pattern that names modules within others that it names too means the outer ones.
  std::vector<Pin> values;
  Costs costs = {};  // by which all else is completed
  /// Operators that draw random numbers may do so for a part, other numbers than for the whole.
  bool random_by_part = false;
  /// The backward keeps a rank's part of what has been gathered, and gathers it again.
  bool gathers_again = false;
  bool operator==(const Pins&) const = default;
};

/// Pins by what they hold; the first pin of each counts.
struct PinnedLayouts {
  std::map<int, Layout> tensors;     // by index in Graph::tensors
  std::map<ValueId, Layout> values;  // floating-point values
};

/// Throws InputError for a pin that names nothing, a parameter that is to be held in terms, and a
/// split that does not divide the shape into equal parts, with the operators that it is about.
PinnedLayouts resolve(const Graph& graph, const Pins& pins, int64_t batch, int parts);

}  // namespace penstock::sharding
