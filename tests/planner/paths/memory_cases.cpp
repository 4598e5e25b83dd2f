#include "tests/planner/paths/memory_cases.hpp"

#include <gtest/gtest.h>

#include "pipeline/layers/layer_model.hpp"
#include "planner/layouts/layout_search.hpp"
#include "planner/rank_model.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/layer_tables.hpp"

namespace penstock::test {

namespace {

/// With backwards in two parts, for the schedules that run these.
void divide_backwards(LayerTable& table, std::mt19937_64& random) {
  for (Layer& layer : table.sizes.front().layers) {
    layer.has_parts = true;
    layer.backward_input_s = static_cast<double>(1 + random() % 5);
    layer.backward_weight_s = static_cast<double>(1 + random() % 5);
    layer.backward_s = layer.backward_input_s + layer.backward_weight_s;
  }
}

}  // namespace

void for_each_memory_case(uint64_t from, uint64_t to, bool rough,
                          const std::function<void(const MemoryCase&, std::mt19937_64&)>& check) {
  for (uint64_t seed = from; seed < to; ++seed) {
    std::mt19937_64 random(seed);
    LayerTable table = random_table(random, rough, 5 + static_cast<int64_t>(random() % 2));
    table.global_batch = 4;
    const char* all[] = {"interleaved-1f1b", "looped-bfs", "interleaved-zb", "zbv", "dualpipev"};
    const std::string schedule = all[random() % 5];
    if (schedule != "interleaved-1f1b" && schedule != "looped-bfs") divide_backwards(table, random);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << schedule);
    const Profile profile = layer_profile(table);
    const Graph model = layer_graph(table);
    const PlanRequest request{.ranks = 2,
                              .schedules = {schedule},
                              .stages_per_rank = 2,
                              .memory_bytes = 100 + static_cast<int64_t>(random() % 300)};
    const RankModel rank_model(profile, model, nullptr, request, nullptr);
    const LayoutSearch search(rank_model.inputs(), rank_model.chain(), request, 2);
    const PipelineLayout layout = search.layouts()[search.layouts().size() - 1];
    ASSERT_EQ(layout.stages(), 4);
    const auto space = search.open(layout);
    if (!space) continue;
    MemoryCase one;
    const std::vector<int> ranks = layout.compute().rank_of_stage;
    for (const std::vector<int>& begins : all_splits(rank_model.chain().units(), 4)) {
      Plan split = plan_of(profile, model, schedule, 2, begins);
      for (size_t stage = 0; stage < ranks.size(); ++stage) split.stages[stage].rank = ranks[stage];
      one.best_s[begins] = best_of(profile, model, split, *request.memory_bytes).value_or(never_s);
      if (!one.paths) one.paths = space->paths(begins);
      if (one.paths && !one.paths->memory()) one.paths = nullptr;
    }
    if (one.paths) check(one, random);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace penstock::test
