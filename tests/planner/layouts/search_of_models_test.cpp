// The search over real models finds what trying all layouts and splits finds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "planner/layouts/layout_search.hpp"
#include "tests/planner/model/real_models.hpp"
#include "tests/planner/splits/try_all.hpp"

namespace penstock::test {
namespace {

void expect_search_finds_what_trying_all_finds(const Model& m,
                                               OptimizerState state = OptimizerState::replicated) {
  const PlanningInputs inputs = m.inputs();
  for (const Schedule& schedule : schedules()) {
    const int each = std::max(schedule.stages_per_rank, schedule.stages_per_rank == 0 ? 2 : 1);
    const int ranks = m.chain.units() > 10 ? 2 : 3;
    if (ranks * each > m.chain.units() || (m.chain.units() > 20 && each > 1)) continue;
    const PlanRequest request{.schedules = {std::string(schedule.name)},
                              .stages_per_rank = each,
                              .optimizer_state = state,
                              .effort = INT64_MAX};
    const LayoutSearch search(inputs, m.chain, request, ranks);
    const SearchResult result = search.run();
    EXPECT_TRUE(result.complete);
    const auto expected = try_all(search);
    ASSERT_EQ(result.best.has_value(), expected.has_value()) << schedule.name;
    if (!expected) continue;
    EXPECT_EQ(key(*result.best), *expected) << schedule.name;
  }
}

class SearchOfEveryModel : public OfModel {};

TEST_P(SearchOfEveryModel, FindsWhatTryingAllLayoutsAndSplitsFinds) {
  PENSTOCK_MODEL(path, GetParam());
  for (const double host_s : hosts_s) {
    expect_search_finds_what_trying_all_finds(
        Model(path, false, {.link_bytes_per_s = 3e8, .host_s = host_s}));
  }
}

TEST_P(SearchOfEveryModel, FindsItWhereReplicasShareOutTheOptimizersState) {
  PENSTOCK_MODEL(path, GetParam());
  for (const int64_t snapshots : {0, 2}) {
    Model m(path, false, {.link_bytes_per_s = 3e8});
    m.profile.job.snapshots = snapshots;
    m.profile.optimizer_s_per_byte *= 20;  // so that it decides
    expect_search_finds_what_trying_all_finds(m, OptimizerState::sharded);
  }
}

std::string memory_key(std::mt19937_64& random, int64_t bytes) {
  if (bytes == 0) return "";
  return fmt::format(", memory: {}",
                     bytes / 2 + static_cast<int64_t>(random() % static_cast<uint64_t>(bytes)));
}

/// Two kinds of node, of one or two devices each, with half to three halves of so many bytes (0:
/// not limited).
Cluster random_cluster(std::mt19937_64& random, int64_t bytes) {
  std::string text = "penstock: cluster\nnodes:\n";
  const int large = static_cast<int>(random() % 2);
  for (int kind = 0; kind < 2; ++kind) {
    text += fmt::format(
        "  - {{devices: {}, speed: {:.1f}, link: {{latency: 1us, bandwidth: {}GB/s}},\n"
        "     network: {{cards: 1, bandwidth: {}GB/s}}{}}}\n",
        kind == large ? 2 : 1, 0.3 + 0.1 * static_cast<double>(random() % 10), 1 + random() % 4,
        1 + random() % 2, memory_key(random, bytes));
  }
  return parse_cluster(text + "network: {latency: 5us}\nsend: posted\n", "mixed.yaml");
}

void expect_fits(const LayoutSearch& search, const FoundSplit& found, const Cluster& cluster) {
  const PipelineLayout layout = search.layouts()[found.space];
  const Cluster used = layout.cluster()->devices.empty() ? cluster : *layout.cluster();
  const auto run = search.open(layout)->plan(found, {});
  for (int rank = 0; rank < layout.ranks; ++rank) {
    const int64_t peak = run.evaluated.simulation.peak_memory_bytes[static_cast<size_t>(rank)];
    for (int replica = 0; replica < layout.data_parallel; ++replica) {
      EXPECT_LE(peak, used.memory(replica * layout.ranks + rank)) << "rank " << rank;
    }
  }
}

/// The fullest rank of the best, or 0 where nothing fits.
int64_t expect_what_trying_all_finds(const Model& m, const Cluster& cluster,
                                     const PlanRequest& request) {
  const PlanningInputs inputs{m.graph,
                              m.analysis,
                              m.profile,
                              &cluster,
                              plan_network(m.profile, &cluster),
                              units_at(m.graph, m.chain.begins())};
  const LayoutSearch search(inputs, m.chain, request, 3);
  const auto found = search.run().best;
  const auto expected = try_all(search);
  EXPECT_EQ(found.has_value(), expected.has_value());
  if (!found || !expected) return 0;
  EXPECT_EQ(key(*found), *expected);
  if (search.limit(search.layouts()[found->space]).any()) expect_fits(search, *found, cluster);
  return found->outcome.peak_bytes;
}

TEST_P(SearchOfEveryModel, FindsItOnGeneratedClustersOfUnlikeDevicesAndMemories) {
  PENSTOCK_MODEL(path, GetParam());
  Model m(path);
  if (m.chain.units() > 20) return;
  m.profile.device.memory_bytes = 0;
  std::mt19937_64 random(1);
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    const PlanRequest request{.schedules = {schedule}, .stages_per_rank = 1, .effort = INT64_MAX};
    const int64_t bytes = expect_what_trying_all_finds(m, random_cluster(random, 0), request);
    ASSERT_GT(bytes, 0);
    expect_what_trying_all_finds(m, random_cluster(random, bytes), request);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SearchOfEveryModel, some_models(), name_of_model);

}  // namespace
}  // namespace penstock::test
