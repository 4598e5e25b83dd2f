#include "pipeline/exports/export_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "pipeline/exports/module_cuts.hpp"

namespace penstock {

namespace {

void require_neighbour(const ExportSource& source, const StageEdge& edge, std::string_view tool) {
  if (edge.consumer == edge.producer + 1) return;
  throw InputError(
      cut_place(source.plan, static_cast<size_t>(edge.consumer)),
      fmt::format("stage {} uses `{}` of stage {}, and with {} a stage hands on to the next alone",
                  edge.consumer,
                  source.model.values[static_cast<size_t>(edge.values.front().value)].name,
                  edge.producer, tool),
      "Cut where one value crosses, or put what uses it into the next stage.");
}

void require_single(const ExportSource& source, const StageEdge& edge, std::string_view tool) {
  if (edge.values.size() == 1) return;
  std::string names;
  for (const Crossing& crossing : edge.values) {
    const std::string& name = source.model.values[static_cast<size_t>(crossing.value)].name;
    names += fmt::format("{}`{}`", names.empty() ? "" : ", ", name);
  }
  throw InputError(cut_place(source.plan, static_cast<size_t>(edge.consumer)),
                   fmt::format("stage {} hands {} values to stage {} ({}), and with {} it is one",
                               edge.producer, edge.values.size(), edge.consumer, names, tool),
                   "Cut where one value crosses.");
}

}  // namespace

std::string export_place(const Plan& plan) { return plan.path.empty() ? "plan" : plan.path; }

const Schedule& require_schedule(const Plan& plan, std::string_view tool,
                                 std::string_view Schedule::ToolNames::*name_there) {
  std::vector<std::string_view> names;
  for (const Schedule& schedule : schedules()) {
    if ((schedule.tools.*name_there).empty()) continue;
    if (plan.program.empty() && plan.schedule == schedule.name) return schedule;
    names.push_back(schedule.name);
  }
  throw InputError(
      fmt::format("{}: {}", export_place(plan), plan.program.empty() ? "schedule" : "program"),
      fmt::format("{} does not run {}", tool,
                  plan.program.empty() ? fmt::format("schedule `{}`", plan.schedule)
                                       : "a program of one's own"),
      fmt::format("It runs {}; torch-csv and torchtitan export any schedule.",
                  fmt::join(names, " and ")));
}

void require_neighbours(const ExportSource& source, std::string_view tool) {
  for (const StageEdge& edge : source.slicing.edges) require_neighbour(source, edge, tool);
}

void require_one_value(const ExportSource& source, std::string_view tool) {
  require_neighbours(source, tool);
  for (const StageEdge& edge : source.slicing.edges) require_single(source, edge, tool);
}

void require_floating_point(const ExportSource& source, std::string_view tool) {
  for (const StageEdge& edge : source.slicing.edges) {
    for (const Crossing& crossing : edge.values) {
      const Value& value = source.model.values[static_cast<size_t>(crossing.value)];
      if (is_floating(value.dtype)) continue;
      throw InputError(
          cut_place(source.plan, static_cast<size_t>(edge.consumer)),
          fmt::format("stage {} hands `{}` of {} to stage {}, and with {} values have gradients",
                      edge.producer, value.name, name(value.dtype), edge.consumer, tool),
          "Cut where values of floating point cross.");
    }
  }
}

void require_own_parameters(const ExportSource& source, std::string_view tool) {
  if (source.slicing.shared.empty()) return;
  const Slicing::Shared& shared = source.slicing.shared.front();
  const auto tensor = static_cast<size_t>(shared.tensor);
  throw InputError(
      cut_place(source.plan, static_cast<size_t>(shared.stages.back())),
      fmt::format("stages {} share `{}`, and with {} each would train a copy of its own",
                  fmt::join(shared.stages, " and "), source.model.tensors[tensor].name, tool),
      "Keep what uses it in one stage, or train with `penstock execute`, which sums its "
      "gradients.");
}

void require_replicated(const ExportSource& source, std::string_view tool) {
  for (const Slicing::Shared& shared : source.slicing.shared) {
    if (!shared.transmitted) continue;
    const std::string& name = source.model.tensors[static_cast<size_t>(shared.tensor)].name;
    throw InputError(
        fmt::format("{}: shared_parameters.{}", export_place(source.plan), name),
        fmt::format("`transmit`, and with {} each stage that uses it updates a copy", tool),
        "Write `replicate`, or train with `penstock execute`.");
  }
}

bool all_recompute(const Plan& plan, std::string_view tool) {
  const bool first = plan.stages.front().recompute.whole;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const Recompute& recompute = plan.stages[stage].recompute;
    if (!recompute.of_units() && recompute.whole == first) continue;
    throw InputError(
        fmt::format("{}: stages[{}].recompute", export_place(plan), stage),
        recompute.of_units()
            ? fmt::format("stage {} recomputes some of its units, and with {} it is all or nothing",
                          stage, tool)
            : fmt::format("stage {} {} and stage 0 {}, and with {} it is all stages or none", stage,
                          first ? "does not recompute" : "recomputes", first ? "does" : "does not",
                          tool),
        "Give all stages `recompute: true`, or all `false`.");
  }
  return first;
}

}  // namespace penstock
