// Reading how parameters get their first values: what is taken, what is refused.
#include "graph/pt2/initial_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "tests/graph/pt2/pt2_file.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace testing;

/// The model of Pt2, its parameter `w` [3] without bytes, initialised by `steps`.
class InitialFile {
 public:
  explicit InitialFile(const Json& steps, const Json& unknown = Json::object()) {
    Pt2 model;
    model.add_weight("w", "weight_0", tensor_meta({3}, {1}), "");
    const Json tensors =
        steps.is_null() ? Json::object() : Json{{"w", {{"dtype", "float32"}, {"steps", steps}}}};
    model.members["m/extra/initial_values.json"] =
        Json{{"seed", 5}, {"unknown", unknown}, {"tensors", tensors}}.dump();
    model.write(file_.path);
    graph = read_pt2(file_.path);
  }
  std::map<int, InitialValues> read() const { return read_initial_values(graph); }
  Graph graph;

 private:
  TemporaryFile file_;
};

const Json kDraw{{"op", "uniform"}, {"numbers", {-1, 1}}, {"draw", 4}};

TEST(InitialValues, StepsAreReadInOrder) {
  const Json clamp{{"op", "clamp"}, {"numbers", {nullptr, 0.5}}};
  const Json row{{"op", "fill"}, {"numbers", {2}}, {"sizes", {2}}, {"strides", {1}}, {"offset", 1}};
  const InitialFile file(Json{kDraw, clamp, row});
  const InitialValues values = file.read().at(0);
  EXPECT_EQ(values.seed, 5);
  ASSERT_EQ(values.steps.size(), 3u);
  EXPECT_EQ(values.steps[0].kind, InitialStep::Kind::uniform);
  EXPECT_EQ(values.steps[0].draw, 4);
  EXPECT_EQ(values.steps[1].first, -INFINITY);
  EXPECT_EQ(values.steps[1].second, 0.5);
  EXPECT_EQ(values.steps[2].part.value().offset, 1);
  require_values(file.graph);
}

TEST(InitialValues, WhatDoesNotFitIsRefused) {
  const auto refused = [](const Json& step, const std::string& reason) {
    EXPECT_THAT(
        [&] {
          InitialFile(Json{kDraw, step}).read();
        },
        ThrowsMessage<InputError>(HasSubstr(reason)))
        << step;
  };
  refused({{"op", "explode"}}, "unknown step 'explode'");
  refused({{"op", "mul"}, {"numbers", {1, 2}}}, "mul takes 1 numbers, not 2");
  refused({{"op", "mul"}, {"numbers", {nullptr}}}, "must be number");
  refused({{"op", "normal"}, {"numbers", {0, -1}}, {"draw", 1}}, "normal cannot take");
  refused({{"op", "uniform"}, {"numbers", {1, 0}}, {"draw", 1}}, "uniform cannot take");
  refused({{"op", "uniform"}, {"numbers", {0, 1}}}, "draw");
  refused({{"op", "uniform"}, {"numbers", {0, 1}}, {"draw", -1}}, "negative");
  refused({{"op", "cast"}, {"dtype", "float31"}}, "unknown type 'float31'");
  refused({{"op", "cast"}, {"dtype", "float64"}}, "values of float64, but it has float32");
  const auto part = [](const Json& sizes, const Json& strides, int64_t offset) {
    return Json{{"op", "exp"}, {"sizes", sizes}, {"strides", strides}, {"offset", offset}};
  };
  refused(part({3}, {1}, 1), "not within it");
  refused(part({3}, {INT64_MAX}, 0), "not within it");
  refused(part({-1}, {1}, 0), "not within it");
  refused(part({1, 1}, {1}, 0), "not within it");
  EXPECT_THAT([] { InitialFile(Json::array()).read(); },
              ThrowsMessage<InputError>(HasSubstr("no steps")));
}

TEST(InitialValues, AParameterWithoutThemIsNamedWithTheReason) {
  const InitialFile file(nullptr, {{"w", "it is drawn otherwise"}});
  EXPECT_THAT([&] { require_values(file.graph); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("no values for `w`"), HasSubstr("it is drawn otherwise"))));
}

TEST(InitialValues, ATensorWithBytesNeedsNone) {
  Pt2 model;
  const TemporaryFile file;
  model.write(file.path);
  const Graph graph = read_pt2(file.path);
  EXPECT_TRUE(read_initial_values(graph).empty());
  require_values(graph);
}

}  // namespace
}  // namespace penstock
