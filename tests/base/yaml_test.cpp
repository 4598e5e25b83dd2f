// YAML that people write is read strictly: each mistake is refused with file, line, value and cure.
#include "base/yaml.hpp"

#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>

#include "base/yaml_strict.hpp"
#include "tests/base/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string strict(const std::string& text) {
  return input_error([&] { require_strict_yaml(text, "f.yaml"); });
}

TEST(StrictYaml, AcceptsPlainDocuments) {
  EXPECT_EQ(strict("a: 1\nb: [1, 2]\nc: {d: \"x\", e: 'y'}\nf:\n  - g: ~\n  - |\n    text\n"), "");
  EXPECT_EQ(strict(""), "");
  EXPECT_EQ(strict("---\na: 1\n...\n"), "");
  EXPECT_EQ(strict("a: {x: 1}\nb: {x: 1}\n"), "") << "the same key in different mappings";
  EXPECT_EQ(strict("a: [[1], [2]]\nb: {c: [d], e: {f: g}}\nh: 1\n"), "");
}

TEST(StrictYaml, RefusesDuplicateKeys) {
  EXPECT_THAT(strict("a: 1\nb: 2\na: 3\n"),
              AllOf(StartsWith("f.yaml:3: the key `a` is given twice, first in line 1"),
                    HasSubstr("Keep one")));
  EXPECT_THAT(strict("a:\n  b: 1\n  'b': 2\n"), StartsWith("f.yaml:3: the key `b` is given twice"));
  EXPECT_THAT(strict("a: {b: [1, {c: 1}], b: 2}"), HasSubstr("`b` is given twice"));
}

TEST(StrictYaml, RefusesAnchorsAliasesAndTags) {
  EXPECT_THAT(strict("a: 1\nb: &x 2\n"),
              AllOf(StartsWith("f.yaml:2: an anchor `&x`"), HasSubstr("Remove")));
  EXPECT_THAT(strict("a: &x [*x]\n"), HasSubstr("an anchor `&x`")) << "a cycle";
  EXPECT_THAT(strict("a: *x\n"), StartsWith("f.yaml:1:4: not YAML: an alias"))
      << "an alias of nothing";
  EXPECT_THAT(strict("a: !!int 3\n"), StartsWith("f.yaml:1: a tag"));
  EXPECT_THAT(strict("a: 1\nb: !mine {c: 1}\n"), StartsWith("f.yaml:2: a tag `!mine`"));
  EXPECT_THAT(strict("a: !mine [1]\n"), HasSubstr("a tag"));
}

TEST(StrictYaml, RefusesAnAliasBombAtItsFirstAnchor) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) bomb += "*a" + std::to_string(i - 1) + (k < 8 ? ", " : "]\n");
  }
  EXPECT_THAT(strict(bomb), StartsWith("f.yaml:1: an anchor `&a0`"));
}

TEST(StrictYaml, RefusesDeepNesting) {
  EXPECT_EQ(strict(std::string(32, '[') + std::string(32, ']')), "");
  EXPECT_THAT(strict(std::string(33, '[') + std::string(33, ']')),
              AllOf(StartsWith("f.yaml:1: more than 32 levels"), HasSubstr("Nest less")));
  EXPECT_THAT(strict(std::string(100000, '[')), StartsWith("f.yaml:1: ")) << "never closed";
  std::string maps;
  for (int i = 0; i < 40; ++i) maps += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(strict(maps), HasSubstr("more than 32 levels"));
}

TEST(StrictYaml, RefusesSeveralDocumentsAndOddKeys) {
  EXPECT_THAT(strict("a: 1\n---\nb: 2\n"),
              AllOf(StartsWith("f.yaml:"), HasSubstr("a second document")));
  EXPECT_THAT(strict("? [a]\n: 1\n"), StartsWith("f.yaml:1: a key that is not a text"));
  EXPECT_THAT(strict("{a: 1}: 2\n"), HasSubstr("a key that is not a text"));
  EXPECT_THAT(strict("? ~\n: 2\n"), HasSubstr("a key that is not a text"));
}

TEST(StrictYaml, WhatIsNotYamlIsRefusedWithItsLine) {
  EXPECT_THAT(strict("a: [1, 2\nb: 3\n"), AllOf(StartsWith("f.yaml:"), HasSubstr("not YAML: ")));
  EXPECT_THAT(strict("a: 1\n b: 2\n"),
              AllOf(StartsWith("f.yaml:2:3: not YAML"), HasSubstr("indentation")));
  EXPECT_THAT(strict("a: 1\nb: \"x\n"),
              StartsWith("f.yaml:2: a quote is opened here and never closed"));
  EXPECT_THAT(strict("a: 1\nb: 'x"), StartsWith("f.yaml:2: a quote is opened"));
  EXPECT_THAT(strict("b: {c: \"x\n  y"), StartsWith("f.yaml:1: a quote is opened"));
  EXPECT_THAT(strict("\ta: 1\n"), HasSubstr("not YAML"));
}

/// A mapping that begins in line 1 of f.yaml.
YamlMap map(const std::string& text) { return YamlMap(YAML::Load(text), "f.yaml"); }

TEST(YamlMap, ReadsEachType) {
  YamlMap read = map("t: text\nq: \"1\"\ni: -3\nn: 3e-4\nb: true\nl: [a, b]\nm: {x: 1}\n");
  EXPECT_EQ(read.text("t"), "text");
  EXPECT_EQ(read.text("q"), "1");
  EXPECT_EQ(read.text("none", "other"), "other");
  EXPECT_EQ(read.integer("i", -5, 5), -3);
  EXPECT_EQ(read.integer("none", 0, 5, 4), 4);
  EXPECT_EQ(read.number("n", 0, 1), 3e-4);
  EXPECT_EQ(read.number("none", 0, 1, 0.5), 0.5);
  EXPECT_TRUE(read.boolean("b", false));
  EXPECT_TRUE(read.boolean("none", true));
  EXPECT_THAT(read.texts("l"), ElementsAre("a", "b"));
  EXPECT_THAT(read.texts("t"), ElementsAre("text"));
  EXPECT_THAT(map("l: [1, 2]").integers("l", 1, 2), ElementsAre(1, 2));
  EXPECT_THAT(map("l: [0.5]").numbers("l", 0, 1), ElementsAre(0.5));
  YamlMap inner = read.map("m");
  EXPECT_EQ(inner.place("x"), "f.yaml:7: m.x");
  EXPECT_EQ(inner.integer("x", 0, 9), 1);
  inner.finish();
  read.finish();
}

TEST(YamlMap, WrongTypesAreRefusedWithPlaceValueAndCure) {
  YamlMap read =
      map("a: [1]\nb: 1.5\nc: yes\nd:\ne: \"7\"\nf: 0x10\ng: .inf\nh: {x: 1}\ni: 1e400\n");
  EXPECT_THAT(input_error([&] { read.text("a"); }),
              StartsWith("f.yaml:1: a: a list is not a text"));
  EXPECT_THAT(input_error([&] { read.integer("b", 0, 9); }),
              AllOf(StartsWith("f.yaml:2: b: `1.5` is not an integer in 0..9"),
                    HasSubstr("Write an integer")));
  EXPECT_THAT(input_error([&] { read.boolean("c", true); }),
              HasSubstr("`yes` is not true or false"));
  EXPECT_THAT(input_error([&] { read.text("d"); }),
              StartsWith("f.yaml:4: d: nothing is not a text"));
  EXPECT_THAT(input_error([&] { read.integer("e", 0, 9); }),
              HasSubstr("the quoted text `7` is not"));
  EXPECT_THAT(input_error([&] { read.integer("f", 0, 99); }), HasSubstr("`0x10` is not"));
  EXPECT_THAT(input_error([&] { read.number("g", 0, 1e300); }), HasSubstr("`.inf` is not"));
  EXPECT_THAT(input_error([&] { read.texts("h"); }), HasSubstr("a mapping is not"));
  EXPECT_THAT(input_error([&] { read.map("a"); }), HasSubstr("a list where a mapping belongs"));
  EXPECT_THAT(input_error([&] { read.maps("b"); }), HasSubstr("`1.5` where a list belongs"));
  EXPECT_THAT(input_error([&] { read.maps("a"); }), HasSubstr("a[0]: `1` where a mapping belongs"));
  EXPECT_THAT(input_error([&] { read.number("i", 0, 1e300); }), HasSubstr("`1e400` is not"));
}

TEST(YamlMap, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(input_error([&] { map("l: [1, 3]").integers("l", 1, 2); }),
              HasSubstr("l: `3` is not"));
  EXPECT_THAT(input_error([&] { map("l: [nan]").numbers("l", 1, 2); }),
              HasSubstr("l: `nan` is not"));
  YamlMap read = map("a: 10\nb: -0.1\nc: 99999999999999999999\n");
  EXPECT_THAT(input_error([&] { read.integer("a", 0, 9); }),
              HasSubstr("`10` is not an integer in 0..9"));
  EXPECT_THAT(input_error([&] { read.number("b", 0, 1); }),
              HasSubstr("`-0.1` is not a number in 0..1"));
  EXPECT_THAT(input_error([&] { read.integer("c", 0, INT64_MAX); }),
              HasSubstr("99999999999999999999"));
}

TEST(YamlMap, UnknownAndMissingKeysSuggestTheNearest) {
  YamlMap read = map("model: x\nlerning_rate: 3\nzzzz: 1\n");
  read.text("model");
  EXPECT_THAT(input_error([&] { read.number("learning_rate", 0, 1); }),
              AllOf(StartsWith("f.yaml:2: learning_rate: missing"),
                    HasSubstr("Is `lerning_rate` a misspelling")));
  EXPECT_THAT(input_error([&] { read.finish(); }),
              AllOf(StartsWith("f.yaml:2: lerning_rate: unknown key"),
                    HasSubstr("Did you mean learning_rate?")));
  EXPECT_THAT(input_error([&] { read.text("data"); }), HasSubstr("Add `data: …`"));
  read.has("lerning_rate");
  EXPECT_THAT(input_error([&] { read.finish(); }),
              AllOf(StartsWith("f.yaml:3: zzzz: unknown key"), HasSubstr("Keys here are: model")));
}

TEST(YamlMap, ListsOfMappingsNameTheirEntry) {
  YamlMap read = map("stages:\n  - {rank: 0}\n  - {rank: x}\n");
  std::vector<YamlMap> stages = read.maps("stages");
  EXPECT_EQ(stages[0].integer("rank", 0, 9), 0);
  EXPECT_THAT(input_error([&] { stages[1].integer("rank", 0, 9); }),
              StartsWith("f.yaml:3: stages[1].rank: `x`"));
}

TEST(ReadYaml, TheFirstKeyNamesTheKindOfFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_yaml(folder.write("a.yaml", "penstock: job\nx: 1\n"), "job").integer("x", 0, 9),
            1);
  EXPECT_THAT(input_error([&] { read_yaml(folder.write("b.yaml", "penstock: plan\n"), "job"); }),
              AllOf(HasSubstr("b.yaml:1: penstock: `plan` where `job` belongs"),
                    HasSubstr("must begin with `penstock: job`")));
  EXPECT_THAT(input_error([&] { read_yaml(folder.write("c.yaml", "x: 1\n"), "job"); }),
              HasSubstr("c.yaml: no key `penstock`"));
  EXPECT_THAT(input_error([&] { read_yaml(folder.write("d.yaml", "- 1\n"), "job"); }),
              HasSubstr("d.yaml:1: a list where a mapping belongs"));
  EXPECT_THAT(input_error([&] { read_yaml(folder.write("e.yaml", ""), "job"); }),
              HasSubstr("nothing where a mapping belongs"));
  EXPECT_THAT(input_error([&] { read_yaml(folder.path() / "none.yaml", "job"); }),
              HasSubstr("none.yaml"));
}

TEST(YamlText, IsReadBackAsTheSameTexts) {
  const std::vector<std::string> texts = {
      "a",        "layers.3", "",     "null", "~",          "true", "No",           "3",
      "-1",       "1e3",      "1f1b", "0x1f", "2024-01-01", ".5",   "a b",          "a: b",
      "#c",       "- d",      "'",    "\"",   "\\",         "\n",   "\t",           "ä",
      "x,y",      "[",        "{",    "&a",   "*a",         "!t",   "iter_block@1", "a/b",
      "../m.pt2", "%",        "?",    "\x01", "…"};
  nlohmann::ordered_json value;
  value["list"] = texts;
  value["map"] = {{"inner", {{"deep", {{"text", "null"}}}}}, {"number", 0.1}};
  for (const std::string& text : texts) value["single" + std::to_string(value.size())] = text;
  const std::string written = yaml_text(value);
  EXPECT_EQ(input_error([&] { require_strict_yaml(written, "f"); }), "");
  YamlMap read = map(written);
  EXPECT_EQ(read.texts("list"), texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(read.text("single" + std::to_string(i + 2)), texts[i]);
  }
  EXPECT_EQ(read.map("map").number("number", 0, 1), 0.1);
}

TEST(YamlText, IsWrittenForPeople) {
  nlohmann::ordered_json value;
  value["kind"] = "plan";
  value["none"] = nlohmann::ordered_json::array();
  value["optimizer"] = {{"kind", "adamw"}, {"betas", {0.9, 0.999}}};
  value["job"] = {{"model", "m.pt2"}, {"optimizer", {{"kind", "sgd"}}}};
  value["stages"] = {{{"rank", 0}, {"begin", ""}}, {{"rank", 1}, {"begin", "layers.4"}}};
  EXPECT_EQ(yaml_text(value),
            "kind: plan\n"
            "none: []\n"
            "optimizer: {kind: adamw, betas: [0.9, 0.999]}\n"
            "job:\n"
            "  model: m.pt2\n"
            "  optimizer: {kind: sgd}\n"
            "stages:\n"
            "  - {rank: 0, begin: \"\"}\n"
            "  - {rank: 1, begin: layers.4}\n");
}

}  // namespace
}  // namespace penstock
