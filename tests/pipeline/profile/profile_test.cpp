#include "pipeline/profile/profile.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

/// Numbers that no short decimal fraction equals, all different.
class Numbers {
 public:
  double real() { return 1. / (3 + next_++); }
  int64_t bytes() { return (int64_t{1} << 40) + next_++; }
  Measured measured() { return {real(), real(), real(), next_++, real()}; }
  ActionTimes times() { return {measured(), measured(), measured(), measured()}; }
  MemoryChange change() {
    const int64_t net = -bytes();
    return {net, bytes()};
  }
  HeldBytes held() { return {bytes(), change(), change(), change(), change()}; }
  ValueMemory values() { return {{0, 2}, {{3, 1}}, {2}}; }

 private:
  int next_ = 0;
};

Profile example(const std::filesystem::path& folder) {
  Numbers next;
  Profile profile;
  profile.path = (folder / "profile.json").string();
  profile.job.model = (folder / "m.pt2").string();
  profile.job.loss = Loss::mse;
  profile.job.optimizer = {.kind = OptimizerSpec::Kind::adamw, .learning_rate = next.real()};
  profile.job.data = {(folder / "null").string(), (folder / "3").string()};
  profile.job.sequence = 16;
  profile.job.global_batch = 8;
  profile.job.seed = INT64_MAX;
  profile.model_sha256 = std::string(64, 'c');
  profile.device = {.kind = "cpu",
                    .name = "Some \"CPU\"",
                    .memory_bytes = next.bytes(),
                    .threads = 2,
                    .cores = 4,
                    .details = {{"clock", "3 GHz"}, {"a/b", "~"}}};
  for (const int64_t size : {1, 4}) {
    MicrobatchCosts costs{.microbatch = size};
    for (const char* name : {"linear", "relu", "mul"}) {
      costs.operators.push_back({name, "aten::x", "layers.0", next.real(), next.bytes(),
                                 next.times(), next.held(), next.values()});
    }
    costs.units.push_back({"layers.0", 0, 2, next.times(), next.held()});
    costs.units.push_back({"mul", 2, 3, next.times(), next.held()});
    costs.loss_forward = next.measured();
    costs.first_microbatch_excess = -next.real();
    costs.load_batch_s = next.real();
    costs.rounds = {{0.9, 1.1}, {1.12345, 0.87655}};
    for (UnitCost& unit : costs.units) unit.jitter = {{0.5, 1.5}, {0, 2}, {1}, {0.99999, 1.00001}};
    profile.microbatches.push_back(costs);
  }
  profile.replays = {{1, next.times()}, {4, next.times()}};
  profile.accumulate_s_per_byte = next.real() * 1e-12;
  profile.optimizer_s_per_byte = next.real() * 1e-12;
  profile.optimizer_s_per_tensor = next.real();
  profile.zero_s_per_byte = next.real() * 1e-300;
  profile.action_overhead_s = next.real();
  profile.action_host_s = next.real();
  profile.hand_off_s_per_byte = next.real();
  profile.base_memory_bytes = next.bytes();
  profile.links.push_back({"gloo",
                           next.real(),
                           1e9 / 3,
                           next.real(),
                           next.real(),
                           next.real(),
                           0,
                           {{4, next.real()}, {1 << 24, next.real()}}});
  profile.links.back().lane_bytes = next.bytes();
  profile.links.push_back({"local", 0, 1e300, 0, 0, 0, 0, {}});
  profile.probe = {next.real(), next.real(), next.real()};
  return profile;
}

TEST(ProfileFile, IsReadBackEqual) {
  const TemporaryFolder folder;
  const Profile profile = example(folder.path());
  const std::string text = to_json(profile, profile.path);
  EXPECT_EQ(read_profile(folder.write("profile.json", text)), profile);
  EXPECT_EQ(to_json(read_profile(profile.path), profile.path), text);
}

TEST(ProfileFile, GroupsAreReadBackEqualTheirPinsInOrderAndTheirPrices) {
  const TemporaryFolder folder;
  Profile profile = example(folder.path());
  profile.groups = {{2, {}, profile.microbatches},
                    {4,
                     {.parameters = {{"layers.0.*", sharding::Layout::split(1, 3)},
                                     {"*", sharding::Layout::identical()}},
                      .values = {{"layers.0", sharding::Layout::split(0)}},
                      .costs = {.state_byte = 1000, .saved_byte = 100}},
                     {profile.microbatches.front()}}};
  const std::string text = to_json(profile, profile.path);
  EXPECT_EQ(read_profile(folder.write("profile.json", text)), profile);
  EXPECT_EQ(to_json(read_profile(profile.path), profile.path), text);
}

TEST(ProfileFile, HasReplaysOnlyWhereTheyWereMeasured) {
  const TemporaryFolder folder;
  Profile profile = example(folder.path());
  profile.replays.clear();
  const std::string text = to_json(profile, profile.path);
  EXPECT_FALSE(Json::parse(text).contains("replays"));
  EXPECT_EQ(read_profile(folder.write("profile.json", text)), profile);
}

/// Each size has one operator's and one unit's costs again.
Profile repeating(const std::filesystem::path& folder) {
  Profile profile = example(folder);
  std::vector<MicrobatchCosts> sizes = profile.microbatches;
  for (MicrobatchCosts& size : sizes) {
    const OperatorCost last = size.operators.back();
    size.operators.back() = size.operators.front();
    size.operators.back().name = last.name;
    size.units.back().times = size.units.front().times;
    size.units.back().held = size.units.front().held;
  }
  profile.groups = {{.parts = 2, .microbatches = sizes}};
  return profile;
}

TEST(ProfileFile, GroupsHaveEqualCostsAndNamesOnce) {
  const TemporaryFolder folder;
  const Profile profile = repeating(folder.path());
  const std::string text = to_json(profile, profile.path);
  const Json sizes = Json::parse(text)["groups"][0]["microbatches"];
  EXPECT_EQ(sizes[0]["operators"][2],
            Json({{"name", "mul"}, {"target", "aten::x"}, {"module", "layers.0"}, {"same_as", 0}}));
  EXPECT_EQ(sizes[1]["operators"][2], Json({{"same_as", 0}}));
  EXPECT_FALSE(sizes[1]["operators"][1].contains("name"));
  EXPECT_EQ(sizes[0]["units"][1],
            Json({{"label", "mul"}, {"begin", 2}, {"end", 3}, {"same_as", 0}}));
  EXPECT_EQ(sizes[1]["units"][1], Json({{"same_as", 0}}));
  EXPECT_EQ(read_profile(folder.write("profile.json", text)), profile);
}

TEST(ProfileFile, RepeatsAreOfEntriesBefore) {
  const TemporaryFolder folder;
  const Profile profile = repeating(folder.path());
  const auto refusal = [&](const char* pointer, const Json& value) {
    Json document = Json::parse(to_json(profile, profile.path));
    document[Json::json_pointer(pointer)] = value;
    return input_error([&] { read_profile(folder.write("profile.json", document.dump())); });
  };
  const std::string operators = "/groups/0/microbatches/1/operators";
  EXPECT_THAT(refusal((operators + "/2/same_as").c_str(), 2),
              HasSubstr(operators + "/2/same_as: 2 is out of range"));
  EXPECT_THAT(refusal((operators + "/0").c_str(), {{"same_as", 0}}),
              HasSubstr(operators + "/0/same_as: 0 is out of range"));
  EXPECT_THAT(refusal("/groups/0/microbatches/0/units/1/end", 2), HasSubstr("2 is out of range"));
  EXPECT_THAT(refusal("/groups/0/microbatches/0/operators/1", {{"same_as", 0}}),
              HasSubstr("/operators/1/name: missing"));
}

TEST(ProfileFile, PathsAreRelativeToIt) {
  const TemporaryFolder folder;
  const Profile profile = example(folder.path());
  const auto elsewhere = folder.path() / "deep/er/p.json";
  EXPECT_EQ(Json::parse(to_json(profile, elsewhere))["job"]["model"], "../../m.pt2");
  const Profile read = read_profile(folder.write("deep/er/p.json", to_json(profile, elsewhere)));
  EXPECT_EQ(read.job, profile.job);
}

TEST(ProfileFile, AtFindsAMicrobatchSize) {
  const Profile profile = example("/");
  EXPECT_EQ(profile.at(4)->microbatch, 4);
  EXPECT_EQ(profile.at(2), nullptr);
}

TEST(ProfileFile, NumbersThatAreNotFiniteAreOurMistake) {
  Profile profile = example("/");
  profile.probe.gemm_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(to_json(profile, "/p.json"), std::logic_error);
}

class DamagedProfile : public ::testing::Test {
 protected:
  /// What reading says of the example after `change`.
  std::string refusal(const std::function<void(Json&)>& change) {
    Json document = Json::parse(to_json(example(folder_.path()), folder_.path() / "p.json"));
    change(document);
    return input_error([&] { read_profile(folder_.write("p.json", document.dump())); });
  }
  TemporaryFolder folder_;
};

TEST_F(DamagedProfile, EveryMissingMemberIsNamedByItsPointer) {
  EXPECT_EQ(refusal([](Json&) {}), "");
  const Json document = Json::parse(to_json(example("/"), "/p.json"));
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
      {"/replays/1/microbatch", 2, "/replays/1/microbatch: microbatch 2 was not measured"},
      {"/replays/1/microbatch", 1, "/replays/1/microbatch: 1 does not come after 1"},
      {"/replays/0/times/backward/mean_s", -1, "/replays/0/times/backward/mean_s: -1 is negative"},
      {"/microbatches/0/units/1/begin", 1, "/microbatches/0/units/1/begin: 1 is out of range"},
      {"/microbatches/0/units/1/end", 4, "/units/1/end: 4 is out of range"},
      {"/microbatches/0/units/1", Json::array(), "/units/1: a list is not an object"},
      {"/microbatches/1/operators/2/times/forward", 3, "/times/forward: 3 is not an object"},
      {"/microbatches/1/operators/2/held_bytes/output", -5, "-5 is negative"},
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
  const std::string text = to_json(example(folder_.path()), folder_.path() / "p.json");
  const auto file = folder_.write("p.json", text.substr(0, text.size() / 2));
  EXPECT_THAT(input_error([&] { read_profile(file); }),
              AllOf(HasSubstr("p.json:"), HasSubstr("not JSON: it ends too early")));
}

TEST_F(DamagedProfile, DamageIsNeverMoreThanAnInputError) {
  const std::string text = to_json(example(folder_.path()), folder_.path() / "p.json");
  for (const std::string& version : damaged(text, 200)) {
    const auto file = folder_.write("p.json", version);
    EXPECT_NO_THROW(input_error([&] { read_profile(file); })) << version;
  }
}

}  // namespace
}  // namespace penstock
