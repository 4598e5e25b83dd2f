#include "graph/analysis/coupling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "graph/analysis/mean_of_targets.hpp"
#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

/// The operand that it divides by.
std::optional<ValueId> divisor(const Operator& op) {
  static const std::set<std::string> divisions{"aten::div", "aten::divide", "aten::true_divide"},
      inverses{"aten::reciprocal", "aten::rsqrt"};
  const bool inverts =
      inverses.contains(op.target) || (op.target == "aten::pow" && number(op, "exponent", 1) < 0);
  if (!inverts && !divisions.contains(op.target)) return std::nullopt;
  const ArgumentValue* value = argument(op, inverts ? "self" : "other");
  const auto* tensor = value ? std::get_if<TensorRef>(value) : nullptr;
  return tensor ? std::optional(tensor->value) : std::nullopt;
}

class CouplingFinder {
 public:
  CouplingFinder(const Graph& graph, const Analysis& analysis)
      : graph_(graph),
        analysis_(analysis),
        from_inputs_(graph.values.size()),
        over_batch_(graph.values.size()) {}

  std::vector<Coupling> run() {
    const std::optional<ValueId> output = graph_.first_output();
    if (!output) return {};
    const std::optional<MeanLoss> loss = mean_loss(graph_, analysis_);
    for (const ValueId input : graph_.inputs) from_inputs_[input] = true;
    std::vector<Coupling> found;
    for (const OperatorId id : operators_behind(graph_, {*output})) {
      enter(graph_.operators[id]);
      if (loss && loss->op == id) continue;
      if (const std::string reason = couples(id); !reason.empty()) found.push_back({id, reason});
    }
    return found;
  }

 private:
  void enter(const Operator& op) {
    bool from_inputs = false, over_batch = true;
    for (const ValueId read : op.reads()) {
      from_inputs |= from_inputs_[read];
      over_batch &= over_batch_[read] || !from_inputs_[read];
    }
    if (!from_inputs) return;
    for (const ValueId id : op.outputs) {
      if (id < 0) continue;
      from_inputs_[id] = true;
      over_batch_[id] = over_batch || (graph_.dynamic_batch && !has_samples(graph_.values[id]));
    }
  }

  static bool has_samples(const Value& value) {
    return std::ranges::any_of(value.shape, &Expression::depends_on_batch);
  }

  std::string couples(OperatorId id) const {
    const Operator& op = graph_.operators[id];
    if (op.target.find("batch_norm") != std::string::npos && flag(op, "training", false))
      return "takes its statistics over the microbatch";
    if (const auto mean = mean_of_targets(graph_, analysis_, id)) {
      return fmt::format(
          "is a mean over the targets that are not {}{}; their number differs "
          "between microbatches",
          mean->ignored, mean->class_weights ? ", weighted by class" : "");
    }
    if (op.target == "aten::nanmean" && over_batch_[op.outputs.front()])
      return "is a mean over the numbers that are not nan, which differ between microbatches";
    const std::optional<ValueId> by = divisor(op);
    if (!by || !over_batch_[*by]) return "";
    return fmt::format("divides by {}, which is computed over the whole microbatch",
                       graph_.values[*by].name);
  }

  const Graph& graph_;
  const Analysis& analysis_;
  std::vector<bool> from_inputs_;
  /// Has lost its samples: a reduction over them, or what is computed from such alone.
  std::vector<bool> over_batch_;
};

}  // namespace

std::vector<Coupling> couplings(const Graph& graph, const Analysis& analysis) {
  return CouplingFinder(graph, analysis).run();
}

std::string describe(const Graph& graph, const Coupling& coupling) {
  const Operator& op = graph.operators[coupling.op];
  const std::string place = op.modules.empty() ? "" : " in " + op.modules.back();
  return fmt::format("{} ({}{}) {}", op.name, full_name(op), place, coupling.reason);
}

}  // namespace penstock
