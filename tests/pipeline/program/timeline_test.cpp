#include "pipeline/program/timeline.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TimelineEvent event(int rank, const char* action, double start_s, double end_s, int64_t bytes = 0) {
  return {rank, parse_action(action, ""), start_s, end_s, bytes};
}

Trace example() {
  return {"1f1b, \"2 ranks\"",
          {event(0, "0F0", 0, 0.1), event(0, "0SEND_F0", 0.1, 0.3, 1 << 20),
           event(0, "0F1", 0.1, 1. / 3), event(1, "1RECV_F0", 0.1, 0.3, 1 << 20),
           event(0, "0SEND_F0:2", 0.2, 0.4, INT64_MAX), event(1, "1F0", 0.3, 0.4),
           event(1, "(1F1;1B0)OVERLAP_F_B", std::numeric_limits<double>::min(), 1e300),
           event(1, "1REDUCE_GRAD", 5, 5), event(1, "1OPT", 5, 6)},
          {{0, 0, 100}, {1, 0.1 + 0.2, 5'000'000'000}}};
}

TEST(Trace, IsReadBackExactly) {
  const TemporaryFolder folder;
  const Trace trace = example();
  const Trace read = read_trace(folder.write("t.json", to_chrome_trace(trace)));
  EXPECT_EQ(read.title, trace.title);
  EXPECT_EQ(read.timeline, trace.timeline);
  EXPECT_EQ(read.memory, trace.memory);
  const Trace empty = read_trace(folder.write("e.json", to_chrome_trace({})));
  EXPECT_EQ(empty.timeline, Timeline());
}

TEST(Trace, SaysWhetherTheStepWasExecuted) {
  const auto read = [](const Trace& trace) {
    return parse_trace(to_chrome_trace(trace), "t.json");
  };
  Trace trace = example();
  EXPECT_FALSE(read(trace).measured);
  trace.measured = true;
  EXPECT_TRUE(read(trace).measured);
  EXPECT_EQ(read(trace).timeline, trace.timeline);
}

TEST(Trace, RanksAreProcessesAndSlicesOfAThreadDoNotOverlap) {
  const Trace trace = example();
  const auto document = nlohmann::json::parse(to_chrome_trace(trace));
  std::map<std::pair<int, int>, double> free_at;
  std::set<std::string> names;
  size_t slices = 0;
  size_t samples = 0;
  for (const auto& entry : document["traceEvents"]) {
    if (entry["ph"] == "M") names.insert(entry["args"]["name"]);
    samples += entry["ph"] == "C";
    if (entry["ph"] != "X") continue;
    const TimelineEvent& expected = trace.timeline[slices++];
    EXPECT_EQ(entry["name"], to_string(expected.action));
    EXPECT_EQ(entry["pid"], expected.rank);
    EXPECT_DOUBLE_EQ(entry["ts"], expected.start_s * 1e6);
    EXPECT_DOUBLE_EQ(entry["dur"], (expected.end_s - expected.start_s) * 1e6);
    const bool moves = is_send(expected.action.kind) || is_receive(expected.action.kind);
    EXPECT_EQ(entry["tid"] > 0, moves) << "thread 0 is compute";
    if (!moves) continue;
    double& free = free_at[{entry["pid"], entry["tid"]}];
    EXPECT_GE(expected.start_s, free);
    free = expected.end_s;
  }
  EXPECT_EQ(slices, trace.timeline.size());
  EXPECT_EQ(samples, trace.memory.size());
  EXPECT_EQ(names, (std::set<std::string>{"rank 0", "rank 1", "compute", "transfers"}));
}

// Perfetto draws a track per thread, named by its metadata, and one per counter of a process.
TEST(Trace, ComputeTransfersAndMemoryOfARankAreTracksOfTheirOwn) {
  const auto document = nlohmann::json::parse(to_chrome_trace(example()));
  std::map<std::pair<int, int>, std::string> threads;
  for (const auto& entry : document["traceEvents"]) {
    if (entry["name"] == "thread_name") {
      threads[{entry["pid"], entry["tid"]}] = entry["args"]["name"];
    }
  }
  std::map<std::string, std::set<int>> ranks_with;
  for (const auto& entry : document["traceEvents"]) {
    if (entry["ph"] == "C") {
      EXPECT_FALSE(entry.contains("tid")) << "a counter belongs to the process";
      EXPECT_TRUE(entry["args"]["bytes"].is_number());
      ranks_with[entry["name"]].insert(entry["pid"].get<int>());
    } else if (entry["ph"] == "X") {
      const std::string& track = threads.at({entry["pid"], entry["tid"]});
      const Kind kind = parse_action(entry["name"].get<std::string>(), "").kind;
      EXPECT_EQ(track, is_send(kind) || is_receive(kind) ? "transfers" : "compute");
      ranks_with[track].insert(entry["pid"].get<int>());
    }
  }
  const std::set<int> both{0, 1};
  EXPECT_EQ(ranks_with, (std::map<std::string, std::set<int>>{
                            {"compute", both}, {"transfers", both}, {"memory", both}}));
}

TEST(Trace, MakespanIsFromFirstStartToLastEnd) {
  EXPECT_EQ(makespan_s({}), 0);
  EXPECT_EQ(makespan_s({event(0, "0F0", 2, 7), event(1, "1F0", 3, 4)}), 5);
}

TEST(Trace, TimesThatAreNotFiniteAreOurMistake) {
  EXPECT_THROW(to_chrome_trace({"", {event(0, "0F0", 0, std::nan(""))}, {}}), std::logic_error);
}

TEST(Trace, AnythingElseIsRefusedNamingFileAndPlace) {
  const TemporaryFolder folder;
  const auto refusal = [&](std::string text) {
    return input_error([&] { read_trace(folder.write("t.json", text)); });
  };
  const auto with_events = [](const std::string& events) {
    return R"({"penstock": {"version": 1, "title": "", "memory": [], "events": [)" + events + "]}}";
  };
  EXPECT_EQ(refusal(with_events(R"([0, "0F0", 0, 1, 2])")), "");
  EXPECT_THAT(refusal("{"), AllOf(HasSubstr("t.json:1:2: not JSON"), HasSubstr("write it again")));
  EXPECT_THAT(refusal("[]"), AllOf(HasSubstr("t.json: /: not a trace"), HasSubstr("--trace")));
  EXPECT_THAT(refusal(R"({"traceEvents": []})"), HasSubstr("not a trace that Penstock wrote"));
  EXPECT_THAT(refusal(R"({"penstock": "profile"})"), HasSubstr("not a trace"));
  EXPECT_THAT(refusal(R"({"penstock": {"version": 2}})"),
              HasSubstr("/penstock/version: version 2"));
  EXPECT_THAT(refusal(with_events(R"([0, "0F0", 0, 1])")),
              HasSubstr("/penstock/events/0: 4 values"));
  EXPECT_THAT(refusal(with_events(R"([0, "0X0", 0, 1, 2])")),
              HasSubstr("/penstock/events/0/1: `0X0`"));
  EXPECT_THAT(refusal(with_events(R"([-1, "0F0", 0, 1, 2])")), HasSubstr("/penstock/events/0/0: "));
  EXPECT_THAT(refusal(with_events(R"([0, "0F0", "x", 1, 2])")),
              HasSubstr("/penstock/events/0/2: \"x\" is not a number"));
  EXPECT_THAT(refusal(with_events(R"([0, "0F0", 0, 1, 2.5])")), HasSubstr("2.5 is not an integer"));
  EXPECT_THAT(input_error([&] { read_trace(folder.path() / "none.json"); }),
              HasSubstr("none.json"));
}

// `compare` once took memory by the largest rank, added up bytes beyond an int64_t, and
// microseconds became infinite, which is not JSON.
TEST(Trace, NumbersThatNoStepHasAreRefused) {
  const auto refusal = [](const std::string& event) {
    return input_error([&] {
      parse_trace(
          R"({"penstock": {"version": 1, "title": "", "memory": [], "events": [)" + event + "]}}",
          "t.json");
    });
  };
  EXPECT_THAT(refusal(R"([2147483646, "0F0", 0, 1, 2])"),
              HasSubstr("t.json: /penstock/events/0/0: 2147483646 is no rank"));
  EXPECT_THAT(refusal(R"([0, "0F0", -1e301, 1, 2])"), HasSubstr("/events/0/2: -1e+301 is no time"));
  EXPECT_THAT(refusal(R"([0, "0F0", 0, 1e308, 2])"), HasSubstr("/events/0/3: 1e+308 is no time"));
  EXPECT_THAT(refusal(R"([0, "0F0", 0, 1, -2])"), HasSubstr("/events/0/4: -2 bytes"));
}

}  // namespace
}  // namespace penstock
