#include "graph/cuts/slice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>

#include "base/error.hpp"

namespace penstock {
namespace {

/// Builds one slicing: first what each stage has to produce, then, from the last operator to the
/// first, what that needs.
class Slicer {
 public:
  Slicer(const Graph& graph, const Analysis& analysis, std::vector<int> stage_of_operator,
         int stages)
      : graph_(graph),
        analysis_(analysis),
        of_(std::move(stage_of_operator)),
        slices_(stages),
        consumers_(graph.consumers()) {
    if (of_.size() != graph.operators.size())
      throw std::logic_error("slice: one stage for each operator is needed");
    for (const int stage : of_)
      if (stage < 0 || stage >= stages) throw std::logic_error("slice: no such stage");
    operators_.resize(slices_.size());
    for (OperatorId id = 0; id < static_cast<OperatorId>(of_.size()); ++id) {
      recomputed_.push_back(is_recomputed(graph.operators[id], analysis));
      (recomputed_.back() ? recomputed_operators_ : operators_[of_[id]]).push_back(id);
    }
    needed_.assign(graph.values.size(), false);
  }

  Slicing run() {
    for (int stage = 0; stage < static_cast<int>(slices_.size()); ++stage) slice_stage(stage);
    check_updates();
    Slicing result;
    for (auto& [ends, values] : crossings_) result.edges.push_back(edge(ends, values));
    result.shared = shared();
    result.stage_of_operator = std::move(of_);
    result.stages = std::move(slices_);
    return result;
  }

 private:
  void slice_stage(int stage) {
    StageSlice& slice = slices_[stage];
    for (const ValueId value : needed_values_) needed_[value] = false;
    needed_values_.clear();
    tensors_.clear();
    take_outputs(stage, slice);
    take_updates(stage, slice);
    std::vector<OperatorId> candidates;
    std::ranges::merge(operators_[stage], recomputed_operators_, std::back_inserter(candidates));
    std::ranges::reverse(candidates);
    for (const OperatorId id : candidates) {
      if (recomputed_[id] && !is_needed(id)) continue;
      slice.operators.push_back(id);
      for (const ValueId read : graph_.operators[id].reads()) need(read);
    }
    std::reverse(slice.operators.begin(), slice.operators.end());
    std::ranges::sort(needed_values_);
    for (const ValueId id : needed_values_) take_source(stage, id, slice);
    slice.tensors.assign(tensors_.begin(), tensors_.end());
  }

  /// A needed value that this stage does not compute: read from data or storage, or received.
  void take_source(int stage, ValueId id, StageSlice& slice) {
    const Value& value = graph_.values[id];
    if (value.kind == Value::Kind::user_input) slice.user_inputs.push_back(id);
    if (value.kind == Value::Kind::tensor) tensors_.insert(value.tensor);
    if (value.kind != Value::Kind::intermediate || recomputed_[value.producer]) return;
    const int producer = of_[value.producer];
    if (producer > stage)
      throw InputError(
          "stages",
          fmt::format("value '{}' goes back from stage {} to stage {}", value.name, producer,
                      stage),
          "Order the stages along the model, so that every value goes to a later one.");
    if (producer < stage) crossings_[{producer, stage}].push_back(id);
  }

  void take_outputs(int stage, StageSlice& slice) {
    for (int index = 0; index < static_cast<int>(graph_.outputs.size()); ++index) {
      const auto* tensor = std::get_if<TensorRef>(&graph_.outputs[index].value);
      if (stage != owner(tensor ? tensor->value : -1)) continue;
      slice.outputs.push_back(index);
      if (tensor) need(tensor->value);
    }
  }

  void take_updates(int stage, StageSlice& slice) {
    for (const BufferUpdate& update : graph_.updates) {
      if (stage != owner(update.value)) continue;
      slice.updates.push_back(update);
      tensors_.insert(update.tensor);
      need(update.value);
    }
  }

  /// The stage that owns the operator which computes the value, or else the last stage.
  int owner(ValueId value) const {
    const OperatorId producer = value < 0 ? -1 : graph_.values[value].producer;
    return producer < 0 ? static_cast<int>(slices_.size()) - 1 : of_[producer];
  }

  /// A buffer that one stage updates and another reads would be read as it was at the start.
  void check_updates() const {
    for (const BufferUpdate& update : graph_.updates) {
      const int home = owner(update.value);
      for (int stage = 0; stage < static_cast<int>(slices_.size()); ++stage)
        if (stage != home && std::ranges::binary_search(slices_[stage].tensors, update.tensor))
          throw InputError(
              "stages",
              fmt::format("buffer '{}' is updated in stage {} and read in stage {}",
                          graph_.tensors[update.tensor].name, home, stage),
              "The next microbatch would read it too early: put the operators that read and update "
              "it into one stage.");
    }
  }

  bool is_needed(OperatorId id) const {
    const auto& outputs = graph_.operators[id].outputs;
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](ValueId value) { return value >= 0 && needed_[value]; });
  }

  void need(ValueId value) {
    if (needed_[value]) return;
    needed_[value] = true;
    needed_values_.push_back(value);
  }

  StageEdge edge(std::pair<int, int> ends, const std::vector<ValueId>& values) const {
    StageEdge result{ends.first, ends.second, {}};
    for (const ValueId value : values)
      result.values.push_back({value, gradient_returns(value, ends.second)});
    return result;
  }

  /// The value requires a gradient and an operator of the stage passes one back to it.
  bool gradient_returns(ValueId value, int stage) const {
    if (!analysis_.requires_grad[value]) return false;
    for (const OperatorId id : consumers_[value]) {
      if (of_[id] != stage) continue;
      for (const ValueId output : graph_.operators[id].outputs)
        if (output >= 0 && analysis_.requires_grad[output]) return true;
    }
    return false;
  }

  std::vector<Slicing::Shared> shared() const {
    std::map<int, std::vector<int>> readers;
    for (int stage = 0; stage < static_cast<int>(slices_.size()); ++stage)
      for (const int tensor : slices_[stage].tensors)
        if (graph_.tensors[tensor].requires_grad) readers[tensor].push_back(stage);
    std::vector<Slicing::Shared> result;
    for (auto& [tensor, stages] : readers)
      if (stages.size() > 1) result.push_back({tensor, stages});
    return result;
  }

  const Graph& graph_;
  const Analysis& analysis_;
  std::vector<int> of_;
  std::vector<StageSlice> slices_;
  std::vector<std::vector<OperatorId>> consumers_;
  std::vector<bool> recomputed_;
  std::map<std::pair<int, int>, std::vector<ValueId>> crossings_;
  std::vector<std::vector<OperatorId>> operators_;  // of each stage that it alone computes
  std::vector<OperatorId> recomputed_operators_;    // that stages compute where they need them
  // These are of the stage at work.
  std::vector<bool> needed_;
  std::vector<ValueId> needed_values_;
  std::set<int> tensors_;
};

}  // namespace

Slicing slice(const Graph& graph, const Analysis& analysis, std::vector<int> stage_of_operator,
              int stages) {
  return Slicer(graph, analysis, std::move(stage_of_operator), stages).run();
}

std::vector<int> interval_stages(const Graph& graph, const std::vector<OperatorId>& begins) {
  const auto count = static_cast<OperatorId>(graph.operators.size());
  std::vector<int> stage_of_operator(graph.operators.size());
  if (begins.empty() || begins.front() != 0)
    throw std::logic_error("interval_stages: the first stage begins at 0");
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const OperatorId end = stage + 1 < begins.size() ? begins[stage + 1] : count;
    if (end <= begins[stage] || end > count)
      throw std::logic_error("interval_stages: stages begin in ascending order");
    std::fill(stage_of_operator.begin() + begins[stage], stage_of_operator.begin() + end,
              static_cast<int>(stage));
  }
  return stage_of_operator;
}

size_t segment_of(const std::vector<Segment>& segments, OperatorId op) {
  const auto found =
      std::ranges::find_if(segments, [&](const Segment& segment) { return segment.contains(op); });
  return static_cast<size_t>(found - segments.begin());
}

bool makes_loss(const StageSlice& slice) {
  return std::ranges::find(slice.outputs, 0) != slice.outputs.end();
}

}  // namespace penstock
