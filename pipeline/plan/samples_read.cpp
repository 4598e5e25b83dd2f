#include "pipeline/plan/samples_read.hpp"

#include <algorithm>

#include "graph/analysis/mean_of_targets.hpp"
#include "pipeline/job/expected_samples.hpp"

namespace penstock {

int stage_of_output(const Slicing& slicing, int output) {
  const auto found = std::ranges::find_if(slicing.stages, [&](const StageSlice& stage) {
    return std::ranges::count(stage.outputs, output) > 0;
  });
  if (found == slicing.stages.end()) return static_cast<int>(slicing.stages.size()) - 1;
  return static_cast<int>(found - slicing.stages.begin());
}

namespace {

/// Besides the inputs of the stage that computes it.
std::set<std::string> read_for_loss(const Job& job, const Graph& graph, const Analysis& analysis) {
  if (job.loss.kind != Loss::output) return {kTarget};
  std::set<std::string> names;
  const std::optional<MeanLoss> mean = mean_loss(graph, analysis);
  if (!mean) return names;
  for (const ValueId id : values_read(graph, *mean)) {
    const Value& value = graph.values[static_cast<size_t>(id)];
    if (value.kind == Value::Kind::user_input) names.insert(value.name);
  }
  return names;
}

}  // namespace

std::set<std::string> samples_read(const Plan& plan, const Graph& graph, const Analysis& analysis,
                                   const Slicing& slicing, const Program& program, int rank) {
  std::set<std::string> names;
  const auto holds = [&](int stage) {
    return program.rank_of_stage[static_cast<size_t>(stage)] == rank;
  };
  for (int stage = 0; stage < program.stage_count(); ++stage) {
    if (!holds(stage)) continue;
    for (const ValueId input : slicing.stages[static_cast<size_t>(stage)].user_inputs)
      names.insert(graph.values[static_cast<size_t>(input)].name);
  }
  if (holds(stage_of_output(slicing, 0))) names.merge(read_for_loss(plan.job, graph, analysis));
  return names;
}

}  // namespace penstock
