// Reading a profile names members that are missing or wrong.
#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/pipeline/profile/example_profile.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class DamagedProfile : public ::testing::Test {
 protected:
  /// The message of reading the example after `change`.
  std::string refusal(const std::function<void(Json&)>& change) {
    Json document =
        Json::parse(to_json(example_profile(folder_.path()), folder_.path() / "p.json"));
    change(document);
    return input_error([&] { read_profile(folder_.write("p.json", document.dump())); });
  }
  TemporaryFolder folder_;
};

TEST_F(DamagedProfile, EveryMissingMemberIsNamedByItsPointer) {
  EXPECT_EQ(refusal([](Json&) {}), "");
  const Json document = Json::parse(to_json(example_profile("/"), "/p.json"));
  int removed = 0;
  const Json leaves = document.flatten();
  for (const auto& [pointer, value] : leaves.items()) {
    const Json::json_pointer leaf(pointer);
    // Details are free; of the job only some keys are required; list entries leave shorter lists;
    // hosts, lanes and replays are those of GPUs, cores and time per tensor those of CPUs.
    const bool optional = pointer.starts_with("/job") || pointer.starts_with("/device/details") ||
                          pointer == "/penstock" || pointer.ends_with("host_s") ||
                          pointer.ends_with("lane_bytes") || pointer == "/device/cores" ||
                          pointer == "/optimizer_s_per_tensor";
    if (optional || document.at(leaf.parent_pointer()).is_array()) continue;
    ++removed;
    const std::string name = pointer;
    EXPECT_THAT(refusal([&](Json& each) { each.at(leaf.parent_pointer()).erase(leaf.back()); }),
                AllOf(HasSubstr("p.json: " + name + ": missing"), HasSubstr("write it again")));
  }
  EXPECT_GT(removed, 100);
}

TEST_F(DamagedProfile, WithoutHostsAndLanesItIsACpus) {
  const auto erase = [](const char* pointer) {
    return [pointer](Json& each) {
      const Json::json_pointer leaf(pointer);
      each.at(leaf.parent_pointer()).erase(leaf.back());
    };
  };
  for (const char* pointer : {"/action_host_s", "/links/0/lane_bytes",
                              "/microbatches/0/operators/1/times/forward/host_s"}) {
    EXPECT_EQ(refusal(erase(pointer)), "") << pointer;
  }
}

TEST_F(DamagedProfile, WithoutNoiseItIsAnOlderOne) {
  EXPECT_EQ(refusal([](Json& each) {
              for (Json& size : each["microbatches"]) {
                size.erase("rounds");
                for (Json& unit : size["units"]) unit.erase("jitter");
              }
            }),
            "");
  EXPECT_THAT(refusal([](Json& each) { each["microbatches"][0].erase("rounds"); }),
              HasSubstr("/microbatches/0: unit `layers.0` has `jitter`, but the size no `rounds`"));
  EXPECT_THAT(refusal([](Json& each) { each["microbatches"][1]["units"][1].erase("jitter"); }),
              HasSubstr("/microbatches/1: unit `mul` has no `jitter`, but the size has `rounds`"));
}

TEST_F(DamagedProfile, WrongValuesAreNamedByTheirPointer) {
  struct Case {
    std::string pointer;
    Json value;
    std::string problem;
  };
  const Case cases[] = {
      {"/penstock", "plan", "/: not a profile"},
      {"/version", 9, "/version: version 9 is unknown"},
      {"/device/threads", 0, "/device/threads: 0 is out of range"},
      {"/device/memory_bytes", 1.5, "1.5 is not an integer"},
      {"/device/details/clock", 3, "/device/details/clock: 3 is not a text"},
      {"/links/0/latency_s", nullptr, "/links/0/latency_s: null is not a number"},
      {"/links/0/latency_s", -1, "/links/0/latency_s: -1 is negative"},
      {"/links", "none", "/links: \"none\" is not a list"},
      {"/microbatches/1/microbatch", 1, "1 does not come after 1"},
      {"/microbatches/0/microbatch", 0, "0 is out of range"},
      {"/microbatches", Json::array(), "/microbatches: no microbatch size was measured"},
      {"/microbatches/1/first_microbatch_excess", -1, "with -1 microbatch 0 takes no time"},
      {"/replays/1/microbatch", 2, "/replays/1/microbatch: microbatch 2 was not measured"},
      {"/replays/1/microbatch", 1, "/replays/1/microbatch: 1 does not come after 1"},
      {"/replays/0/times/backward/mean_s", -1, "/replays/0/times/backward/mean_s: -1 is negative"},
      {"/microbatches/0/units/1/begin", 1, "/microbatches/0/units/1/begin: 1 is out of range"},
      {"/microbatches/0/units/1/end", 4, "/units/1/end: 4 is out of range"},
      {"/microbatches/0/units/1", Json::array(), "/units/1: a list is not an object"},
      {"/microbatches/1/operators/2/times/forward", 3, "/times/forward: 3 is not an object"},
      {"/microbatches/1/operators/2/held_bytes/output", -5, "-5 is negative"},
      {"/microbatches/1/operators/2/held_bytes/output", int64_t{1} << 51, "more than a pebibyte"},
      {"/microbatches/1/operators/2/held_bytes/forward/net", -(int64_t{1} << 51), "below minus"},
      {"/microbatches/0/rounds/1", {1}, "/microbatches/0/rounds/1: 1 rounds"},
      {"/microbatches/0/rounds/0/1", -1, "/microbatches/0/rounds/0/1: -1 is negative"},
      {"/microbatches/0/units/1/jitter/backward", {0, 0}, "/jitter/backward: no factor is above 0"},
      {"/microbatches/0/units/1/jitter/backward/1", -2, "/jitter/backward/1: -2 is negative"},
      {"/base_memory_bytes", 18446744073709551615u, "is not an integer of 64 bits"},
      {"/job/loss", "nll", "p.json: job.loss: there is no loss `nll`"},
      {"/job/lose", 1, "p.json: job.lose: unknown key"},
      {"/job/optimizer/kind", Json::array(), "job.optimizer.kind: a list is not a text"},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(
        refusal([&](Json& document) { document[Json::json_pointer(each.pointer)] = each.value; }),
        AllOf(HasSubstr("p.json: "), HasSubstr(each.problem)))
        << each.pointer;
  }
  EXPECT_THAT(refusal([](Json& document) { document["microbatches"][0]["units"].erase(1); }),
              HasSubstr("/microbatches/0/units: the units cover 2 of 3 operators"));
}

TEST_F(DamagedProfile, ATruncatedFileIsRefused) {
  const std::string text = to_json(example_profile(folder_.path()), folder_.path() / "p.json");
  const auto file = folder_.write("p.json", text.substr(0, text.size() / 2));
  EXPECT_THAT(input_error([&] { read_profile(file); }),
              AllOf(HasSubstr("p.json:"), HasSubstr("not JSON: it ends too early")));
}

TEST_F(DamagedProfile, DamageIsNeverMoreThanAnInputError) {
  const std::string text = to_json(example_profile(folder_.path()), folder_.path() / "p.json");
  for (const std::string& version : damaged(text, 200)) {
    const auto file = folder_.write("p.json", version);
    EXPECT_NO_THROW(input_error([&] { read_profile(file); })) << version;
  }
}

}  // namespace
}  // namespace penstock
