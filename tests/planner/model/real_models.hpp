// Real models with synthetic profiles, for tests of what the planner knows of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/pt2/pt2.hpp"
#include "planner/layouts/layout_search.hpp"
#include "planner/model/model_chain.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "tests/models/models.hpp"
#include "tests/planner/synthetic_profile.hpp"

namespace penstock::test {

/// Every operator a unit of its own, but for those that must stay together: most cuts then are
/// crossed by several values, or by none that is sure to.
inline std::vector<OperatorId> fine_begins(const Graph& graph) {
  const std::vector<bool> allowed = allowed_cuts(graph);
  std::vector<OperatorId> begins;
  for (OperatorId id = 0; id < static_cast<OperatorId>(graph.operators.size()); ++id)
    if (allowed[static_cast<size_t>(id)]) begins.push_back(id);
  return begins;
}

struct Model {
  explicit Model(const std::string& path, bool fine = false, const SyntheticDevice& device = {})
      : graph(read_pt2(path)),
        analysis(analyse(graph)),
        profile(synthetic_profile(graph, {1, 2, 4}, 8, device)),
        link(plan_network(profile, nullptr).link()),
        reduce(reduce_link(profile, nullptr)),
        chain(graph, analysis, fine ? fine_begins(graph) : unit_begins(graph, analysis)) {}

  PlanningInputs inputs() const {
    return {graph,
            analysis,
            profile,
            nullptr,
            plan_network(profile, nullptr),
            units_at(graph, chain.begins())};
  }

  Graph graph;
  Analysis analysis;
  Profile profile;
  Link link, reduce;
  ModelChain chain;
};

/// Seconds that hosts of GPUs take to issue an operator, from ahead of their devices to far behind.
inline constexpr double hosts_s[] = {0, 1e-6, 1e-5, 1e-4};

using OfModel = ::testing::TestWithParam<const char*>;

inline auto some_models() {
  return ::testing::Values("pippy", "iterative", "image_classifier", "everything", "unet", "lstm",
                           "parameters", "outputs", "transformer-text", "transformer-f32", "vit");
}

inline std::string name_of_model(const ::testing::TestParamInfo<const char*>& model) {
  std::string name = model.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace penstock::test
