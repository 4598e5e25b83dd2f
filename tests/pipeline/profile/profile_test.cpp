#include "pipeline/profile/profile.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/pipeline/profile/example_profile.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(ProfileFile, IsReadBackEqual) {
  const TemporaryFolder folder;
  const Profile profile = example_profile(folder.path());
  const std::string text = to_json(profile, profile.path);
  EXPECT_EQ(read_profile(folder.write("profile.json", text)), profile);
  EXPECT_EQ(to_json(read_profile(profile.path), profile.path), text);
}

TEST(ProfileFile, GroupsAreReadBackEqualTheirPinsInOrderAndTheirPrices) {
  const TemporaryFolder folder;
  Profile profile = example_profile(folder.path());
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
  Profile profile = example_profile(folder.path());
  profile.replays.clear();
  const std::string text = to_json(profile, profile.path);
  EXPECT_FALSE(Json::parse(text).contains("replays"));
  EXPECT_EQ(read_profile(folder.write("profile.json", text)), profile);
}

/// Each size has one operator's and one unit's costs again.
Profile repeating(const std::filesystem::path& folder) {
  Profile profile = example_profile(folder);
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
  const Profile profile = example_profile(folder.path());
  const auto elsewhere = folder.path() / "deep/er/p.json";
  EXPECT_EQ(Json::parse(to_json(profile, elsewhere))["job"]["model"], "../../m.pt2");
  const Profile read = read_profile(folder.write("deep/er/p.json", to_json(profile, elsewhere)));
  EXPECT_EQ(read.job, profile.job);
}

TEST(ProfileFile, AtFindsAMicrobatchSize) {
  const Profile profile = example_profile("/");
  EXPECT_EQ(profile.at(4)->microbatch, 4);
  EXPECT_EQ(profile.at(2), nullptr);
}

TEST(ProfileFile, NumbersThatAreNotFiniteAreOurMistake) {
  Profile profile = example_profile("/");
  profile.probe.gemm_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(to_json(profile, "/p.json"), std::logic_error);
}

}  // namespace
}  // namespace penstock
