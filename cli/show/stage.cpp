// One stage of a plan.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/quantity.hpp"
#include "cli/show/fx.hpp"
#include "cli/show/show_text.hpp"
#include "pipeline/plan/stage_names.hpp"

namespace penstock::cli {

namespace {

/// `stage 1`, `stages 1, 2`
std::string stages(const std::vector<int>& numbers) {
  return fmt::format("stage{} {}", numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "));
}

class StageText {
 public:
  StageText(const Graph& model, const Slicing& slicing, int stage)
      : model_(model),
        slicing_(slicing),
        stage_(stage),
        slice_(slicing.stages.at(static_cast<size_t>(stage))),
        returned_(returned_values()),
        users_(model.values.size(), 0) {
    for (const OperatorId id : slice_.operators)
      for (const ValueId value : operator_of(id).reads()) ++users_[static_cast<size_t>(value)];
    for (const ValueId value : returned_) ++users_[static_cast<size_t>(value)];
  }

  std::string text() {
    add_inputs();
    add_tensors();
    add_operators();
    add_outputs();
    return "graph():" + text_;
  }

 private:
  const Operator& operator_of(OperatorId id) const {
    return model_.operators[static_cast<size_t>(id)];
  }
  const Value& value_of(ValueId id) const { return model_.values[static_cast<size_t>(id)]; }
  int users_of(ValueId id) const { return users_[static_cast<size_t>(id)]; }

  void section(const std::string& heading) { text_ += fmt::format("\n    # {}\n", heading); }
  void node(const std::string& name, int users, const std::string& what,
            const std::string& remark) {
    text_ += fmt::format("    %{} : [num_users={}] = {}{}\n", name, users, what,
                         remark.empty() ? "" : "  # " + remark);
  }
  void value_node(ValueId id, const std::string& what, const std::string& remark) {
    const Value& value = value_of(id);
    node(value.name, users_of(id), what, value.type() + remark);
  }

  void add_inputs() {
    section("inputs");
    for (const StageEdge& edge : slicing_.edges) {
      if (edge.consumer != stage_) continue;
      for (const Crossing& crossing : edge.values)
        add_input(crossing.value, fmt::format(", from stage {}{}", edge.producer,
                                              crossing.carries_gradient ? ", gradient back" : ""));
    }
    for (const ValueId value : slice_.user_inputs) add_input(value, ", from the data");
  }
  void add_input(ValueId id, const std::string& remark) {
    value_node(id, fmt::format("placeholder[target={}]", value_of(id).name), remark);
  }

  void add_tensors() {
    section("parameters and buffers");
    for (ValueId id = 0; id < std::ssize(model_.values); ++id) {
      if (value_of(id).kind != Value::Kind::tensor || users_of(id) == 0) continue;
      const int index = value_of(id).tensor;
      const StoredTensor& tensor = model_.tensors[static_cast<size_t>(index)];
      value_node(id, fmt::format("get_attr[target={}]", tensor.name), kind(tensor) + shared(index));
    }
  }
  static std::string kind(const StoredTensor& tensor) {
    if (tensor.kind == StoredTensor::Kind::buffer) return ", buffer";
    if (tensor.kind == StoredTensor::Kind::constant) return ", constant";
    return tensor.requires_grad ? "" : ", frozen";
  }
  std::string shared(int tensor) const {
    const auto found = std::ranges::find(slicing_.shared, tensor, &Slicing::Shared::tensor);
    if (found == slicing_.shared.end()) return "";
    std::vector<int> others = found->stages;
    std::erase(others, stage_);
    return ", also in " + stages(others);
  }

  void add_operators() {
    std::string module;
    for (const OperatorId id : slice_.operators) {
      const Operator& op = operator_of(id);
      const std::string own = op.modules.empty() ? "the model's own" : op.modules.back();
      if (module != own) section(own);
      module = own;
      add_operator(op, slicing_.stage_of_operator[static_cast<size_t>(id)] == stage_
                           ? ""
                           : ", computed by each stage that reads it");
    }
  }
  void add_operator(const Operator& op, const std::string& remark) {
    if (op.outputs.size() == 1 && op.outputs.front() >= 0 && !op.returns_list)
      return value_node(op.outputs.front(), fx_call(model_, op), remark);
    const auto is_tensor = [](ValueId id) { return id >= 0; };
    node(op.name, static_cast<int>(std::ranges::count_if(op.outputs, is_tensor)),
         fx_call(model_, op), "");
    for (size_t i = 0; i < op.outputs.size(); ++i)
      if (is_tensor(op.outputs[i])) value_node(op.outputs[i], fx_getitem(op, i), remark);
  }

  /// Each once: those that later stages read, those of the model, and new values of buffers.
  std::set<ValueId> returned_values() const {
    std::set<ValueId> values;
    for (const StageEdge& edge : slicing_.edges)
      if (edge.producer == stage_)
        for (const Crossing& crossing : edge.values) values.insert(crossing.value);
    for (const int index : slice_.outputs)
      if (const auto value = output_value(index)) values.insert(*value);
    for (const BufferUpdate& update : slice_.updates) values.insert(update.value);
    return values;
  }
  std::optional<ValueId> output_value(int index) const {
    const auto* tensor = std::get_if<TensorRef>(&model_.outputs[static_cast<size_t>(index)].value);
    return tensor ? std::optional(tensor->value) : std::nullopt;
  }

  void add_outputs() {
    section("outputs");
    std::vector<std::string> names;
    for (const ValueId id : returned_) {
      names.push_back(value_of(id).name);
      text_ += fmt::format("    #   %{}: {}{}\n", names.back(), value_of(id).type(), uses(id));
    }
    text_ += fmt::format("    return {}\n", tuple(names));
  }
  static std::string use(const Output& output) {
    return fmt::format(", the model's `{}`{}", output.name,
                       output.held.empty() ? "" : " in " + output.held);
  }
  /// Who takes a value that the stage returns.
  std::string uses(ValueId id) const {
    std::vector<int> readers;
    for (const StageEdge& edge : slicing_.edges)
      if (edge.producer == stage_ && std::ranges::count(edge.values, id, &Crossing::value) > 0)
        readers.push_back(edge.consumer);
    std::string text = readers.empty() ? "" : ", to " + stages(readers);
    for (const int index : slice_.outputs)
      if (output_value(index) == id) text += use(model_.outputs[static_cast<size_t>(index)]);
    for (const BufferUpdate& update : slice_.updates)
      if (update.value == id)
        text +=
            fmt::format(", the next {}", model_.tensors[static_cast<size_t>(update.tensor)].name);
    return text;
  }

  const Graph& model_;
  const Slicing& slicing_;
  const int stage_;
  const StageSlice& slice_;
  const std::set<ValueId> returned_;
  std::vector<int> users_;  // by value
  std::string text_;
};

}  // namespace

std::string stage_text(const std::string& path, const Plan& plan, const Graph& model,
                       const Slicing& slicing, int stage) {
  const StagePlan& planned = plan.stages.at(static_cast<size_t>(stage));
  const auto names =
      stage_names(model, slicing.stage_of_operator, static_cast<int>(plan.stages.size()));
  const std::vector<std::string>& units = planned.recompute.units;
  const std::string again = units.empty() ? recompute_note(planned.recompute)
                                          : fmt::format(" (recomputes {})", fmt::join(units, ", "));
  return fmt::format("{}: stage {} on rank {}, {}{}; microbatches of {}\n\n{}", path, stage,
                     planned.rank, names.at(static_cast<size_t>(stage)), again,
                     format_number(plan.microbatch, "sample"),
                     StageText(model, slicing, stage).text());
}

}  // namespace penstock::cli
