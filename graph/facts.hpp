// Facts about ATen operators that follow from their name and arguments, without LibTorch.
#pragma once

#include "graph/graph.hpp"

namespace penstock {

/// The output shares memory with an input (view, transpose, expand, …).
bool is_view(const Operator& op);
/// Draws random numbers when it runs (dropout with train=true and p>0, attention with dropout, rand…).
bool is_random(const Operator& op);
/// Can be left out when nothing reads its outputs and computes nothing (asserts, metadata checks).
bool is_assertion(const Operator& op);
/// No gradient flows from its outputs to its inputs although they are floating point
/// (detach, comparison, argmax, ones_like, …).
bool stops_gradient(const Operator& op);
/// `aten::linear` or `aten::add.Tensor`.
std::string full_name(const Operator& op);
/// The argument of that name, or null if the exporter left it out (equal to its default).
const ArgumentValue* argument(const Operator& op, const std::string& name);

}  // namespace penstock
