// Where a model may be cut, and the names of those places.
#include "graph/cuts/cuts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using testing::batch;
using ::testing::ElementsAre;
using testing::GraphBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// linear, relu, linear, add (over both), linear: the skip connection closes positions 2 and 3.
GraphBuilder residual() {
  GraphBuilder b;
  const auto w = b.parameter("w", {4, 4});
  const auto stem = b.op("aten::linear", {b.input("x", {batch, 4}), w}, {batch, 4}, {"stem"});
  const auto inner = b.op("aten::relu", {stem}, {batch, 4}, {"body", "body.act"});
  const auto wide = b.op("aten::linear", {inner, w}, {batch, 4}, {"body", "body.proj"});
  const auto sum = b.op("aten::add", {wide, stem}, {batch, 4}, {"body"});
  b.output(b.op("aten::linear", {sum, w}, {batch, 4}, {"head"}));
  return b;
}

TEST(Cuts, ValuesAtEachCut) {
  const GraphBuilder b = residual();
  const Analysis analysis = analyse(b.graph);
  const auto names = [&](OperatorId position) {
    std::vector<std::string> list;
    for (const ValueId id : values_at_cut(b.graph, analysis, position))
      list.push_back(b.graph.values[static_cast<size_t>(id)].name);
    return list;
  };
  EXPECT_THAT(names(0), IsEmpty());
  EXPECT_THAT(names(1), ElementsAre("linear"));
  EXPECT_THAT(names(2), ElementsAre("linear", "relu"));
  EXPECT_THAT(names(3), ElementsAre("linear", "linear_1"));
  EXPECT_THAT(names(4), ElementsAre("add"));
  EXPECT_THAT(names(5), IsEmpty());
  EXPECT_THAT(cut_bytes(b.graph, analysis, 2), ElementsAre(0, 32, 64, 64, 32, 0));
}

TEST(Cuts, DominatorsAreWhereOneValueCarriesAll) {
  const GraphBuilder b = residual();
  EXPECT_THAT(dominator_cuts(b.graph, analyse(b.graph)), ElementsAre(1, 4));
}

TEST(Cuts, ASecondEntryOfDataIsNotDominated) {
  // An encoder and a decoder with an input of its own: one value crosses, but it does not carry
  // all.
  GraphBuilder b;
  const auto w = b.parameter("w", {4, 4});
  const auto encoded = b.op("aten::linear", {b.input("source", {batch, 4}), w}, {batch, 4});
  const auto embedded = b.op("aten::linear", {b.input("target", {batch, 4}), w}, {batch, 4});
  const auto joined = b.op("aten::add", {encoded, embedded}, {batch, 4});
  b.output(b.op("aten::relu", {joined}, {batch, 4}));
  EXPECT_THAT(dominator_cuts(b.graph, analyse(b.graph)), ElementsAre(3));
}

TEST(Cuts, CountersAndMasksDoNotCloseCuts) {
  GraphBuilder b;
  const auto w = b.parameter("w", {4, 4});
  const auto calls = b.buffer("calls", {});
  auto h = b.op("aten::linear", {b.input("x", {batch, 4}), w}, {batch, 4});
  b.update(calls, b.op("aten::add", {calls}, {}));
  h = b.op("aten::mul", {h, b.op("aten::full", {}, {4})}, {batch, 4});
  b.output(b.op("aten::linear", {h, w}, {batch, 4}));
  EXPECT_THAT(dominator_cuts(b.graph, analyse(b.graph)), ElementsAre(1, 2, 3, 4));
}

TEST(Cuts, NoStageBeginsBetweenTheReadersOfABufferAndItsUpdate) {
  GraphBuilder b;
  const auto calls = b.buffer("calls", {});
  auto h = b.op("aten::mul", {b.input("x", {batch, 4}), calls}, {batch, 4});
  h = b.op("aten::relu", {h}, {batch, 4});
  b.update(calls, b.op("aten::add", {calls}, {}));
  b.output(b.op("aten::relu", {h}, {batch, 4}));
  EXPECT_THAT(allowed_cuts(b.graph), ElementsAre(true, false, false, true, true));
}

TEST(Cuts, UnitsLieBetweenDominatorsAndNegligibleOnesJoin) {
  GraphBuilder b;
  const auto w = b.parameter("w", {512, 512});
  auto h = b.input("x", {batch, 512});
  for (const char* layer : {"layers.0", "layers.1"}) {
    const std::string path = layer;
    h = b.op("aten::linear", {h, w}, {batch, 512}, {path, path + ".linear"});
    b.named({"input", "weight"});
    h = b.op("aten::relu", {h}, {batch, 512}, {path, path + ".act"});
    h = b.op("aten::view", {h}, {batch, 512}, {path});
  }
  std::vector<std::string> text;
  for (const Unit& unit : units(b.graph, analyse(b.graph)))
    text.push_back(fmt::format("{}-{} {}", unit.begin, unit.end, unit.label));
  EXPECT_THAT(text, ElementsAre("0-3 ", "3-6 layers.1"));
}

TEST(Cuts, AStretchWithoutDominatorsIsDividedWhereTheFewestBytesCross) {
  // The skip connection spans everything; the narrow value in the middle is the cheapest cut.
  GraphBuilder b;
  const auto w = b.parameter("w", {64, 64});
  const auto x = b.input("x", {batch, 64});
  const auto linear = [&](ValueId from, int64_t width) {
    const ValueId to = b.op("aten::linear", {from, w}, {batch, width});
    b.named({"input", "weight"});
    return to;
  };
  const auto first = linear(x, 64);
  const auto narrow = linear(linear(first, 64), 16);  // position 3 is behind it
  const auto wide = linear(linear(narrow, 64), 64);
  b.output(b.op("aten::add", {wide, first}, {batch, 64}));
  const Analysis analysis = analyse(b.graph);
  EXPECT_THAT(dominator_cuts(b.graph, analysis), ElementsAre(1));
  std::vector<OperatorId> begins;
  for (const Unit& unit : units(b.graph, analysis)) begins.push_back(unit.begin);
  EXPECT_THAT(begins, ElementsAre(0, 1, 3));
}

TEST(Cuts, UnitsCoverAllOperatorsAndTheirLabelsNameThem) {
  const GraphBuilder b = residual();
  OperatorId expected = 0;
  for (const Unit& unit : units(b.graph, analyse(b.graph))) {
    EXPECT_EQ(unit.begin, expected);
    EXPECT_EQ(begin_position(b.graph, unit.label, ""), unit.begin);
    expected = unit.end;
  }
  EXPECT_EQ(expected, 5);
}

/// A block of two operators called three times, then a projection.
GraphBuilder iterated() {
  GraphBuilder b;
  const auto w = b.parameter("w", {4, 4});
  auto h = b.input("x", {batch, 4});
  for (const std::string call : {"", "@1", "@2"}) {
    h = b.op("aten::linear", {h, w}, {batch, 4}, {"block" + call, "block.0" + call});
    h = b.op("aten::relu", {h}, {batch, 4}, {"block" + call, "block.1" + call});
  }
  b.output(b.op("aten::linear", {h, w}, {batch, 4}, {"proj"}));
  return b;
}

TEST(Names, AModuleMayHaveTheSignOfACallInItsName) {
  EXPECT_EQ(module_of_call("block"), "block");
  EXPECT_EQ(module_of_call("layers.0.block@12"), "layers.0.block");
  for (const char* name : {"block@x", "block@", "a@1.block", "7", "", "block@12345678901234567890"})
    EXPECT_EQ(module_of_call(name), name);
}

TEST(Names, APathIsTheFirstCallAndACallIsItself) {
  const GraphBuilder b = iterated();
  const auto position = [&](const std::string& name) { return begin_position(b.graph, name, "p"); };
  EXPECT_EQ(position(""), 0);
  EXPECT_EQ(position("block"), 0);
  EXPECT_EQ(position("block@1"), 2);
  EXPECT_EQ(position("block.1@2"), 5);
  EXPECT_EQ(position("relu_1"), 3);
  EXPECT_EQ(position("proj"), 6);
}

TEST(Names, BeginsAreNamedAfterTheOutermostModule) {
  const GraphBuilder b = iterated();
  EXPECT_EQ(begin_name(b.graph, 0), "");
  EXPECT_EQ(begin_name(b.graph, 2), "block@1");
  EXPECT_EQ(begin_name(b.graph, 3), "block.1@1");
  EXPECT_EQ(begin_name(residual().graph, 3), "add");
}

TEST(Names, EveryBeginNameLeadsBack) {
  GraphBuilder b = iterated();
  // An operator called like a module that begins elsewhere.
  b.output(b.op("aten::block", {b.graph.inputs[0]}, {batch, 4}));
  EXPECT_EQ(begin_name(b.graph, 7), "%block");
  for (OperatorId id = 0; id < static_cast<OperatorId>(b.graph.operators.size()); ++id)
    EXPECT_EQ(begin_position(b.graph, begin_name(b.graph, id), ""), id);
}

TEST(Names, AnUnknownNameSuggestsTheNearest) {
  const GraphBuilder b = iterated();
  EXPECT_THAT([&] { begin_position(b.graph, "blok@1", "plan.yaml:3"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("plan.yaml:3"), HasSubstr("'blok@1'"),
                                              HasSubstr("Did you mean block@1?"))));
}

TEST(Names, AContainerBeginsWithItsFirstChild) {
  GraphBuilder b;
  const auto h = b.op("aten::relu", {b.input("x", {batch, 4})}, {batch, 4}, {"stem"});
  const auto first = b.op("aten::relu", {h}, {batch, 4}, {"layers.0"});
  const auto second = b.op("aten::relu", {first}, {batch, 4}, {"layers.1"});
  b.output(b.op("aten::relu", {second}, {batch, 4}, {"head"}));
  EXPECT_EQ(begin_position(b.graph, "layers", ""), 1);
  EXPECT_THAT(split_positions(b.graph, "layers:end"), ElementsAre(3));
}

TEST(Names, SplitPointsOfEveryCallAndOfOne) {
  const GraphBuilder b = iterated();
  EXPECT_THAT(split_positions(b.graph, "block:end"), ElementsAre(2, 4, 6));
  EXPECT_THAT(split_positions(b.graph, "block:beginning"), ElementsAre(2, 4));
  EXPECT_THAT(split_positions(b.graph, "block@1:end"), ElementsAre(4));
  EXPECT_THAT(split_positions(b.graph, "block.0@2:beginning"), ElementsAre(4));
  EXPECT_THAT(split_positions(b.graph, "relu:end"), ElementsAre(2));
}

TEST(Names, PipeSplitIsEveryMarkerOfTheModelAndANumberIsOne) {
  GraphBuilder b = iterated();
  b.graph.markers = {3, 6};
  EXPECT_THAT(split_positions(b.graph, "pipe_split"), ElementsAre(3, 6));
  EXPECT_THAT(split_positions(b.graph, "pipe_split@0"), ElementsAre(3));
  EXPECT_EQ(begin_position(b.graph, "pipe_split@1", ""), 6);
  for (const char* name : {"pipe_split@2", "pipe_split@x", "pipe_split@-1", "pipe_split@1x"})
    EXPECT_THAT([&] { split_positions(b.graph, name); },
                ThrowsMessage<InputError>(AllOf(HasSubstr(name), HasSubstr("has 2 of them"))));
  EXPECT_THAT([&] { begin_position(b.graph, "pipe_splits", "plan.yaml:3"); },
              ThrowsMessage<InputError>(HasSubstr("no module or operator")));
  EXPECT_THAT([] { split_positions(iterated().graph, "pipe_split"); },
              ThrowsMessage<InputError>(HasSubstr("calls pipe_split() nowhere")));
}

TEST(Names, AModuleCalledPipeSplitIsItself) {
  GraphBuilder b;
  const auto h = b.op("aten::relu", {b.input("x", {batch, 4})}, {batch, 4}, {"stem"});
  b.output(b.op("aten::relu", {h}, {batch, 4}, {"pipe_split"}));
  EXPECT_EQ(begin_position(b.graph, "pipe_split", ""), 1);
  EXPECT_THAT(split_positions(b.graph, "pipe_split:beginning"), ElementsAre(1));
}

TEST(Names, SplitPointsThatAreNone) {
  const GraphBuilder b = iterated();
  const auto refused = [&](const std::string& point, const std::string& reason) {
    EXPECT_THAT([&] { split_positions(b.graph, point); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("--split"), HasSubstr(reason))));
  };
  refused("proj:end", "end of the model");
  refused("block", "no split point");
  refused("block:middle", "no split point");
  refused(":end", "no split point");
  refused("blocks:end", "Did you mean block?");
}

}  // namespace
}  // namespace penstock
