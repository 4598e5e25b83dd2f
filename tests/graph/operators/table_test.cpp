// The table of operators is well-formed, and a name finds its entry in the right namespaces.
#include "graph/operators/table.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <sstream>

namespace penstock {
namespace {

Operator called(const std::string& target) {
  Operator op;
  op.target = target;
  return op;
}

std::vector<std::string> names(const OperatorGroup& group) {
  std::istringstream words{std::string(group.names)};
  return {std::istream_iterator<std::string>(words), {}};
}

TEST(OperatorTable, HasEachNameOnce) {
  std::set<std::string> seen;
  for (const OperatorGroup& group : operator_table()) {
    EXPECT_FALSE(names(group).empty());
    for (const std::string& name : names(group)) {
      EXPECT_TRUE(seen.insert(name).second) << name;
      EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzTH0123456789_"),
                std::string::npos)
          << name;
      EXPECT_EQ(find_traits(name), &group.traits) << name;
    }
  }
  EXPECT_GT(seen.size(), 280U);
}

TEST(OperatorTable, NamesFunctionalFormsThatItHas) {
  for (const OperatorGroup& group : operator_table()) {
    const std::string_view functional = group.traits.functional;
    if (functional.empty()) continue;
    ASSERT_NE(find_traits(functional), nullptr) << functional;
    EXPECT_EQ(find_traits(functional)->writes, OperatorTraits::Writes::by_name) << functional;
  }
}

TEST(OperatorTable, CallsInPlaceWhatIsNamedSo) {
  using Writes = OperatorTraits::Writes;
  for (const OperatorGroup& group : operator_table()) {
    const Writes writes = group.traits.writes;
    if (writes != Writes::copy && writes != Writes::unlike_functional) continue;
    for (const std::string& name : names(group)) EXPECT_TRUE(name.ends_with('_')) << name;
  }
}

TEST(OperatorTable, LeavesTheOptimizersClassToTheOptimizer) {
  for (const OperatorGroup& group : operator_table())
    for (const std::string& name : names(group))
      EXPECT_NE(class_of(called("aten::" + name)), OperatorClass::optimizer) << name;
}

TEST(OperatorTable, KnowsOperatorsOfATenTheirEffectsInPrimsAndTheirSpeedAnywhere) {
  const OperatorTraits unknown;
  EXPECT_EQ(traits_of(called("aten::linear")).saved, OperatorTraits::Saved::factors);
  EXPECT_EQ(traits_of(called("prims::transpose")), unknown);
  EXPECT_EQ(effects_of(called("prims::transpose")).view, OperatorTraits::View::swap);
  EXPECT_EQ(effects_of(called("mine::transpose")), unknown);
  EXPECT_EQ(class_of(called("mine::linear")), OperatorClass::gemm);
}

TEST(OperatorTable, ClassesUnknownOperatorsByTheirFamily) {
  EXPECT_EQ(traits_of(called("aten::nothing_known")), OperatorTraits());
  EXPECT_EQ(class_of(called("aten::nothing_known")), OperatorClass::elementwise);
  EXPECT_EQ(class_of(called("mine::flash_attention")), OperatorClass::attention);
  EXPECT_EQ(class_of(called("aten::slow_conv3d")), OperatorClass::convolution);
  EXPECT_EQ(class_of(called("aten::index_put")), OperatorClass::lookup);
}

TEST(OperatorTable, KnowsWhichWritesHaveAFunctionalForm) {
  for (const char* name : {"add_", "relu_", "normal_", "copy_", "unknown_"})
    EXPECT_TRUE(has_functional_form(name)) << name;
  for (const char* name : {"resize_", "t_", "_foreach_add_", "_fused_adam_"})
    EXPECT_FALSE(has_functional_form(name)) << name;
}

}  // namespace
}  // namespace penstock
