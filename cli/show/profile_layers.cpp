// A profile as a table of layers.
#include <algorithm>
#include <set>

#include "cli/show/show_text.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/layers/layer_table.hpp"
#include "simulator/costs/plan_costs.hpp"

namespace penstock::cli {

namespace {

/// A plan in which each unit is a stage of its own rank.
Plan plan_of_units(const Profile& profile, int64_t microbatch, size_t units, bool recompute) {
  Plan plan{.job = profile.job, .microbatch = microbatch};
  for (size_t unit = 0; unit < units; ++unit) {
    StagePlan& stage = plan.stages.emplace_back();
    stage.rank = static_cast<int>(unit);
    stage.recompute.whole = recompute;
  }
  return plan;
}

/// As a table takes them: labels of units may have other characters, and occur twice.
std::vector<std::string> names(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Unit& unit : units) {
    std::string name = unit.label.empty() ? "first" : unit.label;
    std::ranges::replace_if(
        name, [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '-'; }, '_');
    while (!seen.insert(name).second) name += "_";
    names.push_back(name);
  }
  return names;
}

class TableOfProfile {
 public:
  TableOfProfile(const Profile& profile, const Graph& model)
      : profile_(profile),
        model_(model),
        analysis_(analyse(model)),
        units_(units(model, analysis_)),
        slicing_(slice(model, analysis_, interval_stages(model, unit_begins(model, analysis_)),
                       static_cast<int>(units_.size()))),
        names_(names(units_)) {}

  LayerTable run() {
    LayerTable table{.global_batch = profile_.job.global_batch};
    for (const MicrobatchCosts& size : profile_.microbatches) {
      LayerCosts& costs = table.sizes.emplace_back(LayerCosts{.microbatch = size.microbatch});
      const std::vector<int64_t> crossing = cut_bytes(model_, analysis_, size.microbatch);
      const std::vector<StageCosts> kept = stages(size.microbatch, false);
      const std::vector<StageCosts> recomputed = stages(size.microbatch, true);
      for (size_t unit = 0; unit < names_.size(); ++unit) {
        costs.layers.push_back(layer(unit, kept[unit], recomputed[unit]));
        const bool last = unit + 1 == names_.size();
        costs.layers.back().output_bytes =
            last ? 0 : crossing[static_cast<size_t>(units_[unit].end)];
      }
    }
    for (size_t unit = 0; unit < names_.size(); ++unit) make_alike(table, unit);
    return table;
  }

 private:
  /// A table has the same static bytes at all sizes, and an output as large for each sample: where
  /// a model has some that do not, the most of them.
  static void make_alike(LayerTable& table, size_t unit) {
    int64_t static_bytes = 0, sample_bytes = 0;
    for (const LayerCosts& size : table.sizes) {
      const Layer& layer = size.layers[unit];
      static_bytes = std::max(static_bytes, layer.static_bytes);
      sample_bytes =
          std::max(sample_bytes, (layer.output_bytes + size.microbatch - 1) / size.microbatch);
    }
    for (LayerCosts& size : table.sizes) {
      size.layers[unit].static_bytes = static_bytes;
      size.layers[unit].output_bytes = sample_bytes * size.microbatch;
    }
  }

  std::vector<StageCosts> stages(int64_t microbatch, bool recompute) {
    const Plan plan = plan_of_units(profile_, microbatch, names_.size(), recompute);
    note_recompute(plan, model_, units_, slicing_);
    return plan_costs(plan, model_, slicing_, profile_).stages;
  }

  Layer layer(size_t unit, const StageCosts& kept, const StageCosts& recomputed) const {
    const double action_s = profile_.action_overhead_s;
    Layer layer{.name = names_[unit],
                .forward_s = kept.forward_s - action_s,
                .backward_s = kept.backward_s - action_s,
                .backward_input_s = kept.backward_input_s - action_s,
                .backward_weight_s = kept.backward_weight_s - action_s,
                .has_parts = true,
                .static_bytes = kept.fixed_bytes,
                .gradient_bytes = 0,
                .saved_bytes = kept.saved_bytes};
    for (const int index : slicing_.stages[unit].tensors)
      *layer.gradient_bytes +=
          gradient_bytes(profile_.job, model_.tensors[static_cast<size_t>(index)]);
    const int64_t freed = kept.saved_bytes - recomputed.saved_bytes;
    if (freed > 0) layer.recompute = {{"full", recomputed.recompute_s, freed, freed}};
    return layer;
  }

  const Profile& profile_;
  const Graph& model_;
  const Analysis analysis_;
  const std::vector<Unit> units_;
  Slicing slicing_;
  const std::vector<std::string> names_;
};

}  // namespace

std::string profile_layers(const Profile& profile, const Graph& model) {
  return to_yaml(TableOfProfile(profile, model).run());
}

}  // namespace penstock::cli
