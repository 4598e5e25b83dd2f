// What the tests of exports share: plans, models made by hand, and what an export says of them.
#pragma once

#include <string>
#include <vector>

#include "pipeline/exports/exports.hpp"

namespace penstock {

using Export = std::string (*)(const ExportSource&);

/// 8 microbatches of 2, 3 replicas.
Plan export_plan(std::vector<StagePlan> stages, const std::string& schedule = "1f1b");
/// One rank per stage.
Plan export_chain(const std::vector<std::string>& begins, const std::string& schedule = "1f1b");

std::string exported(Export write, const Plan& plan, const Graph& model);
/// The message with which the export is refused; "" if it is not.
std::string export_refusal(Export write, const Plan& plan, const Graph& model);

/// `embed`, `layers.0` … (each `linear` and `relu`), `norm`, `head`.
Graph stack_of(int layers);
/// `words` looked up, `layers.0` … (each a linear `up`, `down` and a sum with what it was given),
/// and a linear `head`: 16 words, a sequence of 4, 8 features, 16 inside layers.
Graph residual_stack(int layers);
/// A chain of residual_stack's layers on tensor groups of two, as Megatron holds them.
Plan grouped_chain(const std::vector<std::string>& begins);
/// Two branches that meet: `one`, `two`, `three` (after `one`), `four` (after `two` and `three`).
Graph branches();
/// `tokens`, `positions`, which reads its weight alone, their sum, `layers.0`, `layers.1`, `head`;
/// `layers.1` may be given the positions as well.
Graph with_positions(bool late = false);

}  // namespace penstock
