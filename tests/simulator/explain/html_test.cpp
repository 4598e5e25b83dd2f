// The page as text: nothing from outside, nothing lost, nothing that leaves its place.
#include "simulator/explain/html.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string page(const std::string& title) {
  const Program program = testing::lowered(one_f_one_b, 2, 3);
  const Costs costs = testing::chain_costs(2, 1, 2, 1);
  const Link link{.latency_s = 0.5};
  return to_html({title, program, simulate(program, costs, link), explain(program, costs, link)});
}

/// What the page's script reads.
nlohmann::json data_of(const std::string& html) {
  const std::string begin = "id=\"data\">";
  const size_t at = html.find(begin) + begin.size();
  return nlohmann::json::parse(html.substr(at, html.find("</script>", at) - at));
}

TEST(Html, HoldsEveryEventAndSampleOfTheSimulation) {
  const nlohmann::json data = data_of(page("1f1b"));
  size_t events = 0;
  for (const auto& row : data["rows"]) events += row["events"].size();
  EXPECT_EQ(events, 2u * 3 * 2 + 3 * 2 * 2);
  // F0 of rank 0 takes the first second.
  EXPECT_EQ(data["rows"][0]["events"][0], nlohmann::json({0, "0F0", 0.0, 1.0, 0, -1}));
  EXPECT_EQ(data["kinds"][0], "F");
  EXPECT_EQ(data["rows"][1]["curve"][0], nlohmann::json({0.0, 0}));
  EXPECT_EQ(data["simulation"]["path"]["steps"].back()[6], data["span_s"]);
}

TEST(Html, KindsAreListedInTheOrderOfTheirNumbers) {
  const nlohmann::json data = data_of(page("1f1b"));
  for (const auto& row : data["rows"]) {
    for (const auto& event : row["events"]) {
      const Action action = parse_action(event[1].get<std::string>(), "");
      EXPECT_EQ(data["kinds"][event[0].get<size_t>()], name(action.kind));
    }
  }
  const auto& path = data["simulation"]["path"];
  for (const auto& step : path["steps"]) {
    const bool send = is_send(parse_action(step[4].get<std::string>(), "").kind);
    EXPECT_EQ(path["parts"][step[0].get<size_t>()], send ? "transfer" : "compute");
    EXPECT_EQ(step[3].get<int>() >= 0, send) << "only transfers have a receiver";
  }
}

TEST(Html, TellsTheHeadsFactsTheStagesModulesAndEachRanksLimit) {
  const Program program = testing::lowered(one_f_one_b, 2, 3);
  const Costs costs = testing::chain_costs(2, 1, 2);
  const nlohmann::json data = data_of(
      to_html({.title = "plan.yaml",
               .program = program,
               .simulation = simulate(program, costs, {}),
               .explanation = explain(program, costs, {}),
               .memory = {.max_bytes = 100, .reserved_bytes = {0, 30}},
               .facts = {{"replicas", "2"}, {"costs", "estimated from the figures of H100"}},
               .modules = {"embedding", "layers.0-layers.3"}}));
  EXPECT_EQ(data["facts"],
            nlohmann::json::parse(
                R"([["replicas", "2"], ["costs", "estimated from the figures of H100"]])"));
  EXPECT_EQ(data["stages"][1],
            nlohmann::json::parse(R"({"rank": 1, "modules": "layers.0-layers.3"})"));
  EXPECT_EQ(data["rows"][0]["limit_bytes"], 100);
  EXPECT_EQ(data["rows"][1]["limit_bytes"], 70);
}

TEST(Html, WithoutALimitNoRowHasOne) {
  for (const auto& row : data_of(page("1f1b"))["rows"]) EXPECT_FALSE(row.contains("limit_bytes"));
}

Trace trace(double forward_s) {
  const Program program = testing::lowered(gpipe, 2, 2);
  return {"trace", simulate(program, testing::chain_costs(2, forward_s, 2), {}).timeline, {}};
}

TEST(Html, AComparisonHasTheMeasuredRowOfARankBelowThePredictedOne) {
  const Trace predicted = trace(1);
  Trace measured = trace(1.5);
  for (TimelineEvent& event : measured.timeline) event.start_s += 7, event.end_s += 7;
  const nlohmann::json data = data_of(to_html(ComparisonPage{"two", predicted, measured}));
  ASSERT_EQ(data["rows"].size(), 4u);
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(data["rows"][row]["rank"], row / 2);
    EXPECT_EQ(data["rows"][row]["run"], row % 2 == 0 ? "predicted" : "measured");
  }
  // On one axis, whenever the measurement began: (2 + 1)(F + B).
  EXPECT_EQ(data["rows"][1]["events"][0], nlohmann::json({0, "0F0", 0.0, 1.5, 0, -1}));
  EXPECT_EQ(data["comparison"]["predicted_s"], 9.0);
  EXPECT_EQ(data["comparison"]["measured_s"], 10.5);
  EXPECT_EQ(data["span_s"], 10.5);
  EXPECT_EQ(data["comparison"]["ranks"][1]["measured"]["compute_s"], 7.0);
  EXPECT_FALSE(data.contains("simulation"));
}

// A trace may have been changed by hand.
TEST(Html, AComparisonLeavesOutWhatItsTimelinesDoNotHave) {
  const Trace damaged{"damaged",
                      {{2, parse_action("0F0", ""), 1, 2},
                       {2, parse_action("0SEND_F0", ""), 2, 3},
                       {2, parse_action("2000000000F0", ""), 3, 4}},
                      {{7, 1, 100}, {2, 1, 200}}};
  const nlohmann::json data = data_of(to_html(ComparisonPage{"damaged", damaged, damaged}));
  ASSERT_EQ(data["rows"].size(), 6u);  // ranks 0 and 1 have nothing to do
  EXPECT_EQ(data["rows"][4]["curve"], nlohmann::json::parse("[[0.0, 200]]"));
  EXPECT_EQ(data["rows"][4]["events"][1][5], -1);  // stage 1 is nowhere
  EXPECT_EQ(data["stages"].size(), 1u);
}

TEST(Html, ATitleCannotLeaveItsPlace) {
  const std::string title = "</script><script>alert(1)</script>\xe2\x80\xa8<!-- \xff";
  const std::string html = page(title);
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, Not(HasSubstr("<!-- ")));
  EXPECT_THAT(html, HasSubstr("<title>&lt;/script&gt;"));
  EXPECT_THAT(data_of(html)["title"].get<std::string>(),
              HasSubstr("</script><script>alert(1)</script>\xe2\x80\xa8<!-- "));
  // Marks of the frame are text when they come from outside.
  EXPECT_THAT(data_of(page("@data@@script@"))["title"], "@data@@script@");
}

TEST(Html, AsksForNothingFromAnywhereElse) {
  const std::string html = page("1f1b");
  EXPECT_THAT(html, Not(HasSubstr("http://")));
  EXPECT_THAT(html, Not(HasSubstr("https://")));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

TEST(Html, IsTheSameForTheSameInput) { EXPECT_EQ(page("1f1b"), page("1f1b")); }

}  // namespace
}  // namespace penstock
