// A model with a profile of made-up costs, to plan for.
#pragma once

#include <string>

#include "graph/pt2/pt2.hpp"
#include "planner/plan.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/planner/synthetic_profile.hpp"

namespace penstock::test {

/// A model, and a profile of it in a folder of its own.
struct ProfiledModel {
  TemporaryFolder folder;
  Graph model;
  Profile profile;

  explicit ProfiledModel(const std::string& path, const SyntheticDevice& device = {})
      : model(read_pt2(path)),
        profile(written(synthetic_profile(model, {1, 2, 4}, 8, device),
                        folder.path() / "profile.json")) {}

  Planned plan(const PlanRequest& request, const Cluster* cluster = nullptr) const {
    return make_plan(profile, model, cluster, request);
  }
  std::string error(const PlanRequest& request) const {
    return input_error([&] { plan(request); });
  }
};

}  // namespace penstock::test
