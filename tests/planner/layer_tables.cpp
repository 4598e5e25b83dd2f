#include "tests/planner/layer_tables.hpp"

#include <algorithm>

#include "pipeline/layers/layer_model.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock::test {

LayerTable config(const std::string& name) {
  return read_layers(std::string(PENSTOCK_CONFIGS) + "/layers/" + name);
}

LayerTable random_table(std::mt19937_64& random, bool rough, int64_t layers) {
  const auto whole = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  LayerTable table{.path = config("gpt_96.yaml").path, .global_batch = whole(2, 5)};
  LayerCosts& costs = table.sizes.emplace_back();
  if (layers == 0) layers = whole(3, 5);
  for (int64_t number = 0; number < layers; ++number) {
    Layer layer{.name = "layer." + std::to_string(number)};
    layer.forward_s = static_cast<double>(whole(1, 5));
    layer.backward_s = static_cast<double>(whole(1, 9));
    layer.static_bytes = whole(0, 60);
    layer.saved_bytes = whole(0, 40);
    for (int64_t choice = whole(0, 2); choice > 0 && layer.saved_bytes > 0; --choice) {
      RecomputeChoice one{.name = "choice" + std::to_string(choice)};
      one.time_s = static_cast<double>(whole(1, 6));
      one.freed_bytes = whole(1, layer.saved_bytes);
      one.working_bytes = rough ? whole(0, 50) : 0;
      layer.recompute.push_back(one);
    }
    if (rough && number + 1 < layers) layer.output_bytes = whole(0, 20);
    costs.layers.push_back(layer);
  }
  return table;
}

std::optional<double> best_of(const Profile& profile, const Graph& model, const Plan& split,
                              int64_t memory_bytes) {
  const Analysis analysis = analyse(model);
  const std::vector<OperatorCost>& layers = profile.microbatches.front().operators;
  std::vector<size_t> choices(layers.size(), 0);
  std::optional<double> best_s;
  while (true) {
    Plan plan = split;
    const Slicing owners = slice(split, model, analysis);
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      if (choices[layer] == 0) continue;
      const std::string& name = layers[layer].recompute[choices[layer] - 1].name;
      const auto stage = static_cast<size_t>(owners.stage_of_operator[layer]);
      plan.stages[stage].recompute.layers[name].push_back(layers[layer].name);
    }
    const Slicing slicing = slice(plan, model, analysis);
    const Simulation run = simulate(lowered_program(plan, slicing),
                                    plan_costs(plan, model, slicing, profile), Network());
    if (std::ranges::max(run.peak_memory_bytes) <= memory_bytes)
      best_s = std::min(best_s.value_or(run.makespan_s), run.makespan_s);
    size_t next = 0;
    while (next < choices.size() && ++choices[next] > layers[next].recompute.size())
      choices[next++] = 0;
    if (next == choices.size()) return best_s;
  }
}

Plan plan_of(const Profile& profile, const Graph& model, const std::string& schedule, int ranks,
             const std::vector<int>& begins) {
  Plan plan{.layers = true, .job = profile.job, .model_sha256 = model.sha256, .schedule = schedule};
  plan.microbatches = profile.job.global_batch;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const auto first = static_cast<size_t>(begins[stage]);
    plan.stages.push_back({.rank = static_cast<int>(stage) % ranks,
                           .begin = stage == 0 ? "" : model.operators[first].name});
  }
  return plan;
}

Planned planned(const LayerTable& table, const PlanRequest& request) {
  return make_plan(layer_profile(table), layer_graph(table), nullptr, request);
}

PlanRequest asked(const std::string& schedule, int ranks, int stages_per_rank,
                  int64_t memory_bytes) {
  return {.ranks = ranks,
          .schedules = {schedule},
          .stages_per_rank = stages_per_rank,
          .memory_bytes = memory_bytes};
}

}  // namespace penstock::test
