// The modules of a model as a tree, with what each holds, computes and takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::cli {

struct ModuleNode {
  std::string name;        // last part of the path; the root's is ""
  int64_t parameters = 0;  // elements, with all below; a tied tensor counts where it is first
  double flops = 0;        // of the forward, per sample, with all below
  int64_t operators = 0, calls = 1;      // with all below; how often it is called
  double forward_s = 0, backward_s = 0;  // measured for one microbatch, with all below
  std::vector<ModuleNode> children;      // in order of their first operator, or parameter
};

/// With the times of `costs`, which are of this model, unless it is null.
ModuleNode module_tree(const Graph& model, const MicrobatchCosts* costs = nullptr);

/// One line per module, indented; runs of equal numbered modules are drawn together: `0-7`, their
/// times averaged. `timed` adds the columns of times.
std::string module_table(const ModuleNode& root, bool timed, int columns);

}  // namespace penstock::cli
