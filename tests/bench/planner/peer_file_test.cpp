// Which kind a file is, and for which settings it is solved.
#include "bench/planner/peer_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/planner/infinite.hpp"
#include "bench/planner/published.hpp"
#include "bench/planner/report.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* layers_text =
    "a -- Conv -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=1000, "
    "parameter_size=0\n"
    "b -- Conv -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=1000, "
    "parameter_size=0\n"
    "\ta -- b\n";
constexpr const char* placement_text = R"({"maxFPGAs": 2, "maxCPUs": 0, "maxSizePerFPGA": 10,
  "nodes": [
    {"id": 1, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3, "isBackwardNode": 0},
    {"id": 2, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 2, "isBackwardNode": 0}],
  "edges": [{"sourceId": 1, "destId": 2, "cost": 0.5}]})";
constexpr const char* piper_text = R"({"maxDevices": 2, "maxMemoryPerDevice": 10, "bandwidth": 4,
  "mbsInBatch": 4, "nodes": [{"id": 0, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 3,
  "parameterSize": 0, "memoryUsageA": 1, "memoryUsageB": 1, "syncTimeFw": {}, "syncTimeBw": {}}]}}],
  "edges": []})";

std::string sha256_of_vgg16() {
  return "3e914ff5290644c6b1c871002d278e57fcc486c22ac07283480b7779f28e5b08";
}

Setting only_setting(const PeerFile& file, const SettingOptions& options = {}) {
  const std::vector<Setting> all = settings(file, options);
  EXPECT_THAT(all, SizeIs(1));
  return all.front();
}

TEST(PeerFile, IsRecognisedByItsContentAndSolvedAsItSays) {
  const PeerFile layers = parse_peer_file(layers_text, "x");
  EXPECT_EQ(only_setting(layers).objective, Objective::pipedream);
  const PeerFile placement = parse_peer_file(placement_text, "x");
  const Setting two = only_setting(placement);
  EXPECT_EQ(two.objective, Objective::max_load);
  EXPECT_EQ(two.devices, 2);
  EXPECT_DOUBLE_EQ(solve(placement, two).value, 3.5);  // 3 and 0.5 to the other; together 5
  const PeerFile piper = parse_peer_file(piper_text, "x");
  EXPECT_EQ(only_setting(piper).batch, 4);
  EXPECT_DOUBLE_EQ(solve(piper, only_setting(piper)).value, 1.5);  // twice data parallel
}

TEST(PeerFile, OptionsTakeThePlaceOfWhatTheFileSays) {
  const PeerFile piper = parse_peer_file(piper_text, "x");
  EXPECT_DOUBLE_EQ(solve(piper, only_setting(piper, {.devices = 1})).value, 3);
  EXPECT_EQ(solve(piper, only_setting(piper, {.memory_bytes = 1.0})).value, infinite);
  const PeerFile layers = parse_peer_file(layers_text, "x");
  // Two workers: 3 ms on either, or 2 x 1000 bytes at 100 kB/s between them.
  EXPECT_DOUBLE_EQ(solve(layers, only_setting(layers, {.devices = 2})).value, 3e-3);
  const Setting dapple = only_setting(layers, {.devices = 1, .batch = 4, .profile_batch = 2});
  EXPECT_EQ(dapple.objective, Objective::dapple);
  EXPECT_DOUBLE_EQ(solve(layers, dapple).value, 1);
}

TEST(PeerFile, RefusesOptionsThatMeanNothingForIt) {
  const auto refused = [](const char* text, const SettingOptions& options) {
    const PeerFile file = parse_peer_file(text, "file.x");
    return input_error([&] { settings(file, options); });
  };
  EXPECT_THAT(refused(layers_text, {.memory_bytes = 1.0}),
              AllOf(HasSubstr("file.x"), HasSubstr("--memory"), HasSubstr("Leave it out")));
  EXPECT_THAT(refused(layers_text, {.batch = 4}), HasSubstr("--batch"));
  EXPECT_THAT(refused(layers_text, {.profile_batch = 4}), HasSubstr("--batch"));
  EXPECT_THAT(refused(placement_text, {.bytes_per_s = 1.0}), HasSubstr("--bandwidth"));
  EXPECT_THAT(refused(piper_text, {.profile_batch = 1}), HasSubstr("--profile-batch"));
}

TEST(PeerFile, RefusesOtherJson) {
  EXPECT_THAT(input_error([] { parse_peer_file("{}", "other.json"); }),
              AllOf(HasSubstr("other.json"), HasSubstr("maxFPGAs"), HasSubstr("mbsInBatch")));
  EXPECT_THAT(input_error([] { parse_peer_file("[1]", "other.json"); }), HasSubstr("other.json"));
  EXPECT_THAT(input_error([] { parse_peer_file("", "empty"); }), HasSubstr("empty"));
}

TEST(Published, IsKnownByContentAndSettingOnly) {
  EXPECT_THAT(published(std::string_view("0000")), IsEmpty());
  PeerFile file = parse_peer_file(layers_text, "vgg16.graph.txt");
  EXPECT_THAT(published(file.sha256), IsEmpty());  // the name says nothing
  file.sha256 = sha256_of_vgg16();
  const Setting setting = only_setting(file);
  EXPECT_EQ(setting.devices, 4);
  EXPECT_EQ(published(file.sha256, setting), 0.205520896);
  EXPECT_EQ(published(file.sha256, only_setting(file, {.devices = 5})), std::nullopt);
  EXPECT_EQ(published(file.sha256, only_setting(file, {.devices = 4})), 0.205520896);
}

TEST(Report, LeavesOutWhatWasNotPublishedAndSaysWhereNothingFits) {
  PeerRow row{.file = "a/b.json", .setting = {.objective = Objective::piper, .devices = 2}};
  row.result.value = infinite;
  const nlohmann::json line = nlohmann::json::parse(peer_json_line(row));
  EXPECT_FALSE(line.contains("published"));
  EXPECT_TRUE(line["value"].is_null());
  EXPECT_EQ(line["file"], "a/b.json");
  EXPECT_THAT(peer_table_line(row), HasSubstr("nothing fits"));
  row.result.value = 2;
  row.published = 2.5;
  row.result.exact = false;
  const nlohmann::json known = nlohmann::json::parse(peer_json_line(row));
  EXPECT_EQ(known["published"], 2.5);
  EXPECT_EQ(known["value"], 2);
  EXPECT_THAT(peer_table_line(row), HasSubstr("limited search"));
}

}  // namespace
}  // namespace penstock::bench
