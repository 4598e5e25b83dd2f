// Text that is not JSON is told with line and column.
#include "base/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/base/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string refusal(const std::string& text) {
  return input_error([&] { parse_json(text, "f.json"); });
}

TEST(Json, WhatIsNotJsonIsRefusedWithItsLineAndColumn) {
  EXPECT_THAT(refusal("{\"a\": }"), StartsWith("f.json:1:7: not JSON from `}` on"));
  EXPECT_THAT(refusal("{\"a\": 1,\n \"b\": [1, 2,, 3]}"),
              StartsWith("f.json:2:13: not JSON from `, 3]}` on"));
  EXPECT_THAT(refusal("{\"a\": 1,\n"), StartsWith("f.json:2:1: not JSON: it ends too early"));
  EXPECT_THAT(refusal("{} {}"), StartsWith("f.json:1:4: not JSON from `{}` on"));
  EXPECT_THAT(refusal(" \n"), StartsWith("f.json: not JSON: the file is empty"));
  EXPECT_THAT(refusal("[1e999]"), StartsWith("f.json: not JSON: a number out of range"));
  EXPECT_THAT(refusal("{\"a\": \"\n\"}"), StartsWith("f.json:1:"));
}

TEST(Json, AMessageShowsWholeCharacters) {
  // The 20th byte is the begin of an `ä`.
  EXPECT_THAT(refusal("{\"a\": ?123456789012345678äää}"),
              StartsWith("f.json:1:7: not JSON from `?123456789012345678` on"));
  const nlohmann::json value = std::string(58, 'x') + "ä" + std::string(9, 'x');
  EXPECT_THAT(input_error([&] { JsonValue(value, "f.json").number(); }),
              HasSubstr(std::string(58, 'x') + "… is not a number"));
}

TEST(Json, NoMessageIsTheParsersOwn) {
  for (const std::string& text :
       damaged(R"({"a": [1, 2.5e3, "x\u00e4"], "b": {"c": null}})", 300)) {
    EXPECT_THAT(refusal(text),
                AllOf(Not(HasSubstr("json.exception")), Not(HasSubstr("parse_error"))));
  }
}

TEST(Json, OneKeyAloneCanBeKept) {
  const std::string text = R"({"x": [{"job": 1}], "job": {"x": 2, "job": 3}, "y": 4})";
  EXPECT_EQ(parse_json(text, "f", "job"), nlohmann::json::parse(R"({"job": {"x": 2, "job": 3}})"));
  EXPECT_EQ(parse_json(text, "f"), nlohmann::json::parse(text));
  EXPECT_THAT(input_error([&] { parse_json("{\"x\": ]", "f", "job"); }), StartsWith("f:1:7: "));
}

}  // namespace
}  // namespace penstock
