// The modules of a model as a tree, with what each holds and computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock::cli {

struct ModuleNode {
  std::string name;        // last part of the path; the root's is ""
  int64_t parameters = 0;  // elements, with all below; a tied tensor counts where it is first
  double flops = 0;        // of the forward, per sample, with all below
  int64_t operators = 0, calls = 1;  // with all below; how often it is called
  std::vector<ModuleNode> children;  // in order of their first operator, or parameter
};

ModuleNode module_tree(const Graph& model);

/// One line per module, indented; runs of equal numbered modules are drawn together: `0-7`.
std::string module_table(const ModuleNode& root);

}  // namespace penstock::cli
