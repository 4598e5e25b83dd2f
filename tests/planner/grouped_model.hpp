// A model with a profile of tensor groups, of costs made up for what their ranks run.
#pragma once

#include <string>

#include "graph/sharding/local_graph.hpp"
#include "pipeline/sharding/group_completion.hpp"
#include "tests/planner/profiled_model.hpp"

namespace penstock::test {

/// Megatron's pins of GPT-2, with a sequence that is split between its blocks.
inline const sharding::Pins columns_and_rows{
    .parameters = {{"*.c_attn.weight", sharding::Layout::split(1, 3)},
                   {"*.attn.c_proj.weight", sharding::Layout::split(0)},
                   {"*.c_fc.weight", sharding::Layout::split(1)},
                   {"*.mlp.c_proj.weight", sharding::Layout::split(0)}},
    .values = {{"transformer.h.?", sharding::Layout::split(1)}}};

/// Its operators take as long as they compute.
inline constexpr SyntheticDevice computing{.flops_per_s = 1e7, .bytes_per_s = 1e8, .operator_s = 0};

/// Costs of groups with these pins, at microbatches of 1, 2 and 4 samples.
inline GroupCosts made_up(const Graph& model, const LossSpec& loss, const sharding::Pins& pins,
                          int parts, const SyntheticDevice& device) {
  const auto completion = group_completion(model, loss, pins, 1, parts);
  const Graph local = sharding::local_graph(model, completion).graph;
  return {parts, pins, synthetic_profile(local, {1, 2, 4}, 8, device).microbatches};
}

/// GPT-2 by itself and on groups of 2 and 4.
struct GroupedModel : ProfiledModel {
  explicit GroupedModel(const std::string& path, const SyntheticDevice& device = computing)
      : ProfiledModel(path, device) {
    for (const int parts : {2, 4})
      profile.groups.push_back(made_up(model, profile.job.loss, columns_and_rows, parts, device));
    profile = written(profile, folder.path() / "profile.json");
  }
};

}  // namespace penstock::test
