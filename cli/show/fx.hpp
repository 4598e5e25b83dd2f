// Operators as torch.fx prints the nodes of a GraphModule.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock::cli {

/// `call_function[target=torch.ops.aten.linear.default](args = (%x, %weight), kwargs = {})`
std::string fx_call(const Graph& model, const Operator& op);

/// One of several outputs:
/// `call_function[target=operator.getitem](args = (%split, 1), kwargs = {})`
std::string fx_getitem(const Operator& op, size_t output);

/// `(a, b)`, and `(a,)` of one: a tuple as Python prints it.
std::string tuple(const std::vector<std::string>& parts);

}  // namespace penstock::cli
