// Guarantees of what a profile has of tensor groups: the graph that each of their ranks runs, in
// order, consistent, equal when read back, continued from a part. No clock decides.
#include <algorithm>

#include "backend/profiler/sizes.hpp"
#include "graph/pt2/pt2.hpp"
#include "pipeline/sharding/group_graphs.hpp"
#include "tests/backend/profiler/profiling.hpp"

namespace penstock::profiler {
namespace {

using ::testing::HasSubstr;

class PartsOfModel : public ProfilerTest, public ::testing::WithParamInterface<Case> {};

/// The sizes that a quick profile measures, ascending.
std::vector<int64_t> quick_sizes(const Graph& graph, int64_t batch) {
  auto sizes = affordable(microbatch_sizes(graph, batch, "job"), batch, quick_effort);
  std::ranges::sort(sizes);
  return sizes;
}

Request of_parts(std::vector<int> parts) {
  return {.effort = quick_effort, .tensor_parallel = std::move(parts)};
}

void expect_measured_as_they_run(const Profile& made, const std::vector<GroupGraph>& graphs) {
  ASSERT_EQ(made.groups.size(), graphs.size());
  ASSERT_FALSE(graphs.empty());
  for (size_t i = 0; i < graphs.size(); ++i) {
    const GroupCosts& group = made.groups[i];
    EXPECT_EQ(group.parts, graphs[i].parts);
    EXPECT_EQ(group.sharding, graphs[i].sharding);
    ASSERT_EQ(group.microbatches.size(), graphs[i].sizes.size());
    for (size_t size = 0; size < graphs[i].sizes.size(); ++size) {
      EXPECT_EQ(group.microbatches[size].microbatch, graphs[i].sizes[size]);
      expect_consistent(group.microbatches[size], graphs[i].local.graph);
      EXPECT_GT(sum(group.microbatches[size].units, &ActionTimes::backward), 0);
    }
  }
}

TEST_P(PartsOfModel, AreMeasuredAsTheyRun) {
  PENSTOCK_MODEL(model, GetParam().model);
  const Graph graph = read_pt2(model);
  const Profile made = profile(write_job(model, GetParam().loss), of_parts({2}));
  expect_measured_as_they_run(made,
                              group_graphs(graph, made.job.loss, {}, quick_sizes(graph, 4), {2}));
  EXPECT_EQ(to_json(made, partial_), read_file(partial_));
}

INSTANTIATE_TEST_SUITE_P(
    Models, PartsOfModel,
    ::testing::Values(Case{"everything", "cross_entropy"}, Case{"pippy", "cross_entropy"},
                      Case{"gpt2", "cross_entropy"}, Case{"bert", "cross_entropy"},
                      Case{"t5", "cross_entropy"}, Case{"llama", "cross_entropy"},
                      Case{"moe", "cross_entropy"}, Case{"vit", "cross_entropy"},
                      Case{"resnet", "cross_entropy"}, Case{"unet", "mse"}),
    name_of_case);

class PartsTest : public ProfilerTest {
 protected:
  std::vector<std::string> told(const char* event, const char* member) const {
    std::vector<std::string> texts;
    for (const Json& each : events_)
      if (each.at("event") == event) texts.push_back(each.at(member));
    return texts;
  }
};

TEST_F(PartsTest, DrawRandomNumbersOfTheirOwn) {
  PENSTOCK_MODEL(model, "transformer-text-dropout");
  const Graph graph = read_pt2(model);
  Request how = of_parts({2});
  how.sharding = {.costs = {.state_byte = 1000, .saved_byte = 100}, .random_by_part = true};
  const Profile made = profile(write_job(model, "cross_entropy"), how);
  expect_measured_as_they_run(
      made, group_graphs(graph, made.job.loss, how.sharding, quick_sizes(graph, 4), {2}));
}

TEST_F(PartsTest, TellHowFarTheyAre) {
  PENSTOCK_MODEL(model, "gpt2");
  profile(write_job(model, "cross_entropy", 2), of_parts({2, 4}));
  double last = 0;
  for (const Json& event : events_) {
    if (event.at("event") != "progress") continue;
    EXPECT_GE(event.at("share").get<double>(), last) << event.dump();
    last = event.at("share");
  }
  EXPECT_GT(last, 0.9);
  EXPECT_LE(last, 1);
  const auto what = told("progress", "what");
  for (const char* each : {"loading of 2 parts", "microbatch 1 of 4 parts"})
    EXPECT_GT(std::ranges::count(what, each), 0) << each;
}

/// Marks what is known of the first size of each group, and forgets the last group's others.
void forget_the_end(const std::string& file) {
  Json partial = Json::parse(read_file(file));
  for (Json& group : partial.at("groups")) group["microbatches"][0]["load_batch_s"] = mark;
  Json& last = partial["groups"].back()["microbatches"];
  last.erase(last.begin() + 1, last.end());
  write_file(file, partial.dump());
}

TEST_F(PartsTest, GoOnFromWhatAnEarlierRunMeasured) {
  PENSTOCK_MODEL(model, "pippy");
  const std::string job = write_job(model, "cross_entropy");
  const Profile before = profile(job, of_parts({2, 4}));
  forget_the_end(partial_);
  const Profile after = profile(job, of_parts({2, 4}));
  EXPECT_EQ(after.microbatches, before.microbatches);
  ASSERT_EQ(after.groups.size(), before.groups.size());
  for (size_t i = 0; i < after.groups.size(); ++i) {
    const auto &sizes = after.groups[i].microbatches, &known = before.groups[i].microbatches;
    ASSERT_EQ(sizes.size(), known.size());
    ASSERT_GT(sizes.size(), 1U);
    EXPECT_EQ(sizes[0].load_batch_s, mark);
    EXPECT_EQ(sizes[1] == known[1], i + 1 < after.groups.size());
  }
}

TEST_F(PartsTest, AreForgottenWhereTheyAreNotAskedForAgain) {
  PENSTOCK_MODEL(model, "gpt2");
  const std::string job = write_job(model, "cross_entropy", 2);
  profile(job, of_parts({2, 4}));
  const Profile two = profile(job, of_parts({2}));
  ASSERT_FALSE(two.groups.empty());
  for (const GroupCosts& group : two.groups) EXPECT_EQ(group.parts, 2);
}

/// Seven does not divide anything there is.
TEST_F(PartsTest, SayWhereNothingCanBeShared) {
  PENSTOCK_MODEL(model, "pippy");
  const Profile made = profile(write_job(model, "cross_entropy", 2), of_parts({7}));
  EXPECT_TRUE(made.groups.empty());
  EXPECT_THAT(told("warning", "message"),
              ::testing::Contains(HasSubstr("tensor groups of 7 are not measured")));
}

}  // namespace
}  // namespace penstock::profiler
