// Facts about operators that follow from their entries in the table and from their arguments.
#pragma once

#include "graph/graph.hpp"

namespace penstock {

/// The output shares memory with an input (view, transpose, expand, …).
bool is_view(const Operator& op);
/// Gives its input, a view of it, or something new, depending on strides and the like.
bool may_be_view(const Operator& op);
/// A dropout that drops nothing and gives its input.
bool is_inactive_dropout(const Operator& op);
/// Draws random numbers when it runs (dropout with train=true and p>0, attention with dropout,
/// rand…).
bool is_random(const Operator& op);
/// Can be left out when nothing reads its outputs and computes nothing (asserts, metadata checks).
bool is_assertion(const Operator& op);
/// No gradient flows from its outputs to its inputs although they are floating point
/// (detach, comparison, argmax, ones_like, …).
bool stops_gradient(const Operator& op);
/// The same for one output of an operator that passes gradients to others: the running statistics
/// of a batch norm, the log-sum-exp of an attention.
bool stops_gradient(const Operator& op, size_t output);
/// Writes to one of its inputs: `aten::relu_`, an `out` overload, a batch norm that updates its
/// running statistics in place.
bool is_mutating(const Operator& op);
/// With reduction=mean it divides by the weight of the targets that are not ignore_index.
bool counts_targets(const Operator& op);
/// `aten::linear` or `aten::add.Tensor`.
std::string full_name(const Operator& op);
/// The argument of that name, or null if the exporter left it out (equal to its default).
const ArgumentValue* argument(const Operator& op, const std::string& name);
/// The argument as a number or a truth value; `otherwise` if it was left out or is of another kind.
double number(const Operator& op, const std::string& name, double otherwise);
bool flag(const Operator& op, const std::string& name, bool otherwise);

}  // namespace penstock
