// Functionalisation: the normal form of a graph, in which no operator writes to its input.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// Replaces each operator that writes to its input by one that gives a new value, and lets whatever
/// reads that memory afterwards read the new value: a view of it is rebuilt, a tensor that it is
/// a view of gets it put in its place. Buffers that were written become updates. A graph without
/// such operators stays as it is.
///
/// Throws InputError naming operator, place and cure for what cannot be told from the graph: writes
/// to parameters and inputs, without gradient to what needs one, and through operators that may or
/// may not give a view where the rest of its memory is read again.
void make_functional(Graph& graph);

// The forms of single operators, in functional_forms.cpp.

/// An operator that computes the same without writing.
struct FunctionalForm {
  Operator op;  // its own outputs still, as far as it had any
  /// Arguments that it does not write, each with the output that takes its place.
  std::vector<std::pair<std::string, size_t>> written;
  bool changes_type = false;  // the output may be of another type than the argument
};
/// Nothing for an operator without one.
std::optional<FunctionalForm> functional_form(const Graph& graph, const Operator& op);

/// The operator that gives `base` with `part` in place of what `view` takes of it; nothing where
/// that is not known. Without `name`, `modules` and `outputs`.
std::optional<Operator> put_back(const Graph& graph, const Operator& view, ValueId base,
                                 ValueId part);

}  // namespace penstock
