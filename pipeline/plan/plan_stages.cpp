// From a plan's stages to operators: intervals between `begin`s, and stages that list modules.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "graph/cuts/cuts.hpp"
#include "graph/cuts/segments.hpp"
#include "pipeline/plan/module_names.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/plan/sharing.hpp"

namespace penstock {

namespace {

std::string plan_place(const Plan& plan) { return plan.path.empty() ? "plan" : plan.path; }

std::string stage_place(const Plan& plan, size_t stage, std::string_view key) {
  return fmt::format("{}: stages[{}].{}", plan_place(plan), stage, key);
}

bool is_interval(const StagePlan& stage) { return stage.modules.empty(); }

/// Operators of the stages with a `begin`, each up to the next such stage's; -1 before the first.
std::vector<int> interval_owners(const Plan& plan, const Graph& model) {
  std::vector<int> owner(model.operators.size(), -1);
  OperatorId previous = -1;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    if (!is_interval(plan.stages[stage])) continue;
    const std::string place = stage_place(plan, stage, "begin");
    const std::string& begin = plan.stages[stage].begin;
    const OperatorId position = begin_position(model, begin, place);
    if (position <= previous) {
      throw InputError(place,
                       fmt::format("`{}` does not come after the begin of the stage before", begin),
                       "Order the stages along the model, each with a begin of its own.");
    }
    previous = position;
    std::fill(owner.begin() + position, owner.end(), static_cast<int>(stage));
  }
  return owner;
}

/// Which stage lists each module path or call.
std::map<std::string, int> listed_modules(const Plan& plan) {
  std::map<std::string, int> listed;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    for (const std::string& module : plan.stages[stage].modules) {
      const auto [found, added] = listed.emplace(module, static_cast<int>(stage));
      if (added) continue;
      throw InputError(stage_place(plan, stage, "modules"),
                       fmt::format("`{}` is already listed by stage {}", module, found->second),
                       "List a module once.");
    }
  }
  return listed;
}

void check_modules_exist(const Plan& plan, const Graph& model,
                         const std::map<std::string, int>& listed) {
  std::set<std::string> known;
  for (const Operator& op : model.operators) {
    for (std::string& name : module_names(op)) known.insert(std::move(name));
  }
  for (const auto& [module, stage] : listed) {
    if (known.contains(module)) continue;
    throw InputError(stage_place(plan, static_cast<size_t>(stage), "modules"),
                     fmt::format("the model runs no module `{}`", module),
                     did_you_mean(module, {known.begin(), known.end()}));
  }
}

/// Gives operators to the stages that list their module; the innermost listed module decides.
void give_to_modules(const Plan& plan, const Graph& model, std::vector<int>& owner) {
  const std::map<std::string, int> listed = listed_modules(plan);
  if (listed.empty()) return;
  check_modules_exist(plan, model, listed);
  for (size_t op = 0; op < model.operators.size(); ++op) {
    for (const std::string& name : module_names(model.operators[op])) {
      const auto found = listed.find(name);
      if (found != listed.end()) owner[op] = found->second;
    }
  }
}

void check_owners(const Plan& plan, const Graph& model, const std::vector<int>& owner) {
  for (size_t op = 0; op < owner.size(); ++op) {
    if (owner[op] >= 0) continue;
    const Operator& lost = model.operators[op];
    throw InputError(
        plan_place(plan) + ": stages",
        fmt::format("operator `{}`{} belongs to no stage", lost.name,
                    lost.modules.empty() ? " (outside all modules)"
                                         : fmt::format(" of `{}`", lost.modules.back())),
        "List its module, or give the first stage `begin: \"\"` instead of `modules`: "
        "it then runs all that no stage lists.");
  }
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    if (std::ranges::find(owner, static_cast<int>(stage)) != owner.end()) continue;
    throw InputError(
        stage_place(plan, stage, is_interval(plan.stages[stage]) ? "begin" : "modules"),
        fmt::format("stage {} has no operator", stage),
        "Remove the stage, or give it operators that no other stage lists.");
  }
}

/// The choices of a stage's layers.
std::map<OperatorId, std::string> choices_of(const Plan& plan, const Graph& model,
                                             const Slicing& slicing, size_t stage) {
  std::map<OperatorId, std::string> choices;
  const auto refuse = [&](const std::string& problem, const std::string& cure) {
    throw InputError(stage_place(plan, stage, "recompute"), problem, cure);
  };
  if (plan.stages[stage].recompute.layers.empty()) return choices;
  std::map<std::string_view, OperatorId> known;
  for (const OperatorId op : slicing.stages[stage].operators)
    known.emplace(model.operators[static_cast<size_t>(op)].name, op);
  for (const auto& [choice, layers] : plan.stages[stage].recompute.layers) {
    for (const std::string& layer : layers) {
      const auto found = known.find(layer);
      if (found == known.end()) {
        std::vector<std::string> names;
        for (const auto& [name, op] : known) names.emplace_back(name);
        refuse(fmt::format("the stage has no layer `{}`", layer), did_you_mean(layer, names));
      }
      if (!choices.emplace(found->second, choice).second)
        refuse(fmt::format("`{}` makes two choices", layer), "List it once.");
    }
  }
  return choices;
}

}  // namespace

void check_fingerprint(const Plan& plan, const Graph& model) {
  if (plan.model_sha256.empty() || plan.model_sha256 == model.sha256) return;
  throw InputError(
      plan_place(plan) + ": model_sha256",
      fmt::format("the plan was made for another model: it names {}…, and {} has {}…",
                  plan.model_sha256.substr(0, 12), model.path, model.sha256.substr(0, 12)),
      "Plan this model anew, or remove `model_sha256` to use the plan all the same.");
}

Slicing slice(const Plan& plan, const Graph& model, const Analysis& analysis) {
  std::vector<int> owner = interval_owners(plan, model);
  give_to_modules(plan, model, owner);
  check_owners(plan, model, owner);
  Slicing slicing = slice(model, analysis, std::move(owner), static_cast<int>(plan.stages.size()));
  std::vector<OperatorId> begins;
  if (std::ranges::any_of(plan.stages, [](const auto& stage) { return stage.recompute.units > 0; }))
    begins = unit_begins(model, analysis);
  note_recompute(plan, model, begins, slicing);
  note_shared(plan, model, slicing);
  return slicing;
}

void note_recompute(const Plan& plan, const Graph& model,
                    const std::vector<OperatorId>& unit_begins, Slicing& slicing) {
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const Recompute& wanted = plan.stages[i].recompute;
    const int stage = static_cast<int>(i);
    slicing.stages[i].choices = choices_of(plan, model, slicing, i);
    std::vector<Segment>& segments = slicing.stages[i].recomputed;
    segments = wanted.whole ? whole_stage(slicing, stage)
                            : first_units(slicing, stage, unit_begins, wanted.units);
    if (wanted.whole || static_cast<int>(segments.size()) == wanted.units) continue;
    throw InputError(stage_place(plan, i, "recompute"),
                     fmt::format("the stage has {} unit{}, not {}", segments.size(),
                                 segments.size() == 1 ? "" : "s", wanted.units),
                     "Give as many or fewer, or `true` for the whole stage at once.");
  }
}

}  // namespace penstock
