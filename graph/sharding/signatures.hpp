// In which layouts an operator reads its operands and gives its results.
#pragma once

#include <span>

#include "graph/graph.hpp"
#include "graph/sharding/layout.hpp"

namespace penstock::sharding {

/// The ranks of a group call the operator on what they hold of the operands, with sizes as of the
/// local result among its arguments, and have the results held as said here; called backward on the
/// results' gradients held as gradient(), they have the operands' gradients held as gradient().
struct Signature {
  std::vector<Layout> operands;  // of each tensor argument, in order, as tensor_arguments() has it
  std::vector<Layout> results;
  bool operator==(const Signature&) const = default;
};

/// All splits of a dimension over so many ranks, in fewer blocks first.
std::vector<Layout> splits_of(const Shape& shape, int dimension, int parts);

/// Tensors among the arguments in order, each as often as it is given.
std::vector<ValueId> tensor_arguments(const Operator& op);

/// All that are known for a group of `parts` ranks, at a batch of `batch` samples. The first has
/// everything `identical`, and is the only one of operators that draw random numbers or write; the
/// second, of all others, has everything `replicated`: whatever an operator computes, its operands'
/// gradients are linear in the result's.
///
/// An embedding whose rows are split gives zeros for an id that is another rank's. Of a mean over a
/// dimension that is split a rank has the mean of its part, divided by the number of parts. Of
/// groups a rank has as many less, where channels are split. For a cross entropy whose classes are
/// split the ranks gather a few numbers of each row (collectives.hpp), and each has the loss; its
/// targets are of all classes.
///
/// `random_by_part`: an operator that draws random numbers may also draw for a part, other numbers
/// than for the whole.
std::vector<Signature> signatures(const Graph& graph, const Operator& op, int64_t batch, int parts,
                                  bool random_by_part = false);

}  // namespace penstock::sharding
