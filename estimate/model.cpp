#include "estimate/model.hpp"

#include <algorithm>
#include <numeric>

#include "graph/operators/facts.hpp"

namespace penstock {

EstimateModel::EstimateModel(const Graph& graph)
    : graph_(graph),
      analysis_(analyse(graph)),
      gathered_in_(sharding::gathered_in(graph, analysis_)),
      roots_(graph.values.size()),
      gradients_(graph.values.size(), 0),
      last_readers_(graph.values.size(), -1) {
  std::iota(roots_.begin(), roots_.end(), 0);
  for (OperatorId id = 0; id < operators(); ++id) {
    const Operator& op = this->op(id);
    const std::vector<ValueId> reads = op.reads();
    for (const ValueId read : reads) last_readers_[static_cast<size_t>(read)] = id;
    if (is_alias(op) && !reads.empty()) {
      for (const ValueId output : op.outputs)
        if (output >= 0) roots_[static_cast<size_t>(output)] = root(reads.front());
    }
    if (!differentiated(op)) continue;
    for (const ValueId read : reads)
      if (requires_grad(read)) ++gradients_[static_cast<size_t>(read)];
  }
  for (const Output& output : graph.outputs)
    if (const auto* ref = std::get_if<TensorRef>(&output.value))
      last_readers_[static_cast<size_t>(ref->value)] = operators();
}

bool EstimateModel::is_alias(const Operator& op) { return is_view(op) || is_inactive_dropout(op); }

bool EstimateModel::works(const Operator& op) const {
  return !is_alias(op) && !is_assertion(op) && !is_recomputed(op, analysis_);
}

bool EstimateModel::differentiated(const Operator& op) const {
  return !is_recomputed(op, analysis_) && std::ranges::any_of(op.outputs, [&](ValueId output) {
    return output >= 0 && requires_grad(output);
  });
}

bool EstimateModel::of_parameters(ValueId id) const {
  return value(id).kind == Value::Kind::tensor ||
         analysis_.parameter_derived[static_cast<size_t>(id)];
}

std::vector<ValueId> EstimateModel::data_operands(const Operator& op) const {
  std::vector<ValueId> operands = op.reads();
  std::erase_if(operands, [&](ValueId id) { return !requires_grad(id) || of_parameters(id); });
  return operands;
}

std::vector<ValueId> EstimateModel::parameter_operands(const Operator& op) const {
  std::vector<ValueId> operands = op.reads();
  std::erase_if(operands, [&](ValueId id) { return !requires_grad(id) || !of_parameters(id); });
  return operands;
}

bool EstimateModel::counts(ValueId id) const {
  const auto at = static_cast<size_t>(id);
  return value(id).kind == Value::Kind::intermediate && !analysis_.constant[at] &&
         !analysis_.parameter_derived[at];
}

}  // namespace penstock
