// The axes of a call: dimensions of operands and results that can only be split together.
#pragma once

#include "graph/graph.hpp"
#include "graph/operators/table.hpp"
#include "graph/sharding/layout.hpp"

namespace penstock::sharding {

/// An operator with its sizes at one batch.
struct Call {
  const Operator& op;
  int64_t batch;
  std::vector<Shape> operands, results;
};

/// Where it is missing (-1), an operand is read whole by each rank, and a result is the sum of what
/// the ranks compute, which operands that are only added to it enter as terms of.
struct Axis {
  std::vector<int> operands, results;
  int added = -1;  // an operand that the results add: a bias
  /// So many units make up each of these dimensions, and are not divided: groups of channels.
  int64_t units = 0;  // each element is one
};

/// Axes of a call of that class; none where its arguments are of a form that is not known.
std::vector<Axis> axes_of(const Call& call, OperatorTraits::Sharding sharding);

int rank(const Shape& shape);
/// Numbered from 0; dimensions may count from the end.
int from_front(int64_t dimension, int rank);
/// An integer argument; `otherwise` where it was left out.
int64_t integer(const Call& call, const std::string& name, int64_t otherwise);
/// A list of integers, or one integer; nothing where it was left out.
std::optional<Shape> integers(const Call& call, const std::string& name);

}  // namespace penstock::sharding
