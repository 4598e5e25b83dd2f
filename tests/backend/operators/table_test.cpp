// The names of the table of operators are those of LibTorch.
#include "graph/operators/table.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <set>
#include <sstream>

namespace penstock::test {
namespace {

TEST(OperatorTable, NamesOperatorsThatLibTorchHas) {
  // graph/sharding/collectives.hpp:
  const std::set<std::string> own{"identity",
                                  "own_part",
                                  "among_zeros",
                                  "first_only",
                                  "all_reduce",
                                  "all_gather",
                                  "all_to_all",
                                  "reduce_scatter",
                                  "embedding_of_rows",
                                  "all_gather_again",
                                  "cross_entropy_of_classes"};
  for (const OperatorGroup& group : operator_table()) {
    std::istringstream names{std::string(group.names)};
    for (std::string name; names >> name;) {
      if (own.contains(name)) continue;
      const auto symbol = c10::Symbol::fromQualString("aten::" + name);
      EXPECT_FALSE(torch::jit::getAllOperatorsFor(symbol).empty()) << name;
    }
  }
}

}  // namespace
}  // namespace penstock::test
