// From a plan's stages to operators: intervals between `begin`s, and stages that list modules.
#include <fmt/format.h>
#include <fmt/ranges.h>

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

/// The units that a stage recomputes, of its own.
std::vector<Segment> chosen_units(const Plan& plan, size_t stage, const std::vector<Unit>& own) {
  const Recompute& wanted = plan.stages[stage].recompute;
  const std::string place = stage_place(plan, stage, "recompute");
  const auto count = static_cast<int>(own.size());
  if (wanted.first_units > count)
    throw InputError(place,
                     fmt::format("the stage has {} unit{}, not {}", count, count == 1 ? "" : "s",
                                 wanted.first_units),
                     "Give as many or fewer, or `true` for the whole stage at once.");
  std::vector<bool> chosen(own.size(), false);
  std::fill_n(chosen.begin(), wanted.first_units, true);
  for (const std::string& name : wanted.units) {
    const auto unit = std::ranges::find(own, name, &Unit::label) - own.begin();
    if (unit == std::ssize(own)) {
      std::vector<std::string> labels;
      for (const Unit& one : own) labels.push_back(fmt::format("`{}`", one.label));
      throw InputError(place, fmt::format("no unit of the stage begins at `{}`", name),
                       fmt::format("Its units begin at {}.", fmt::join(labels, ", ")));
    }
    if (chosen[static_cast<size_t>(unit)])
      throw InputError(place, fmt::format("`{}` is listed twice", name), "List it once.");
    chosen[static_cast<size_t>(unit)] = true;
  }
  std::vector<Segment> segments;
  for (size_t unit = 0; unit < own.size(); ++unit)
    if (chosen[unit]) segments.push_back({own[unit].begin, own[unit].end});
  return segments;
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
  std::vector<Unit> of_model;
  if (std::ranges::any_of(plan.stages, &Recompute::of_units, &StagePlan::recompute))
    of_model = units(model, analysis);
  note_recompute(plan, model, of_model, slicing);
  note_shared(plan, model, slicing);
  return slicing;
}

void note_recompute(const Plan& plan, const Graph& model, const std::vector<Unit>& units,
                    Slicing& slicing) {
  std::vector<std::vector<int>> of_stages;
  if (std::ranges::any_of(plan.stages, &Recompute::of_units, &StagePlan::recompute))
    of_stages = units_of_stages(slicing, units);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    slicing.stages[i].choices = choices_of(plan, model, slicing, i);
    std::vector<Segment>& segments = slicing.stages[i].recomputed;
    segments.clear();
    if (plan.stages[i].recompute.whole) {
      segments = whole_stage(slicing, static_cast<int>(i));
    } else if (plan.stages[i].recompute.of_units()) {
      std::vector<Unit> own;
      for (const int unit : of_stages[i]) own.push_back(units[static_cast<size_t>(unit)]);
      segments = chosen_units(plan, i, own);
    }
  }
}

}  // namespace penstock
