// The names of the table of operators are those of LibTorch.
#include "graph/operators/table.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <sstream>

namespace penstock::test {
namespace {

TEST(OperatorTable, NamesOperatorsThatLibTorchHas) {
  for (const OperatorGroup& group : operator_table()) {
    std::istringstream names{std::string(group.names)};
    for (std::string name; names >> name;) {
      const auto symbol = c10::Symbol::fromQualString("aten::" + name);
      EXPECT_FALSE(torch::jit::getAllOperatorsFor(symbol).empty()) << name;
    }
  }
}

}  // namespace
}  // namespace penstock::test
