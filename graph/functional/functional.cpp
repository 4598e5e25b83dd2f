#include "graph/functional/functional.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/functional/functional_builder.hpp"
#include "graph/operators/facts.hpp"
#include "graph/operators/table.hpp"

namespace penstock {
namespace {

bool same_shape(const Value& a, const Value& b) {
  return a.dtype == b.dtype &&
         std::ranges::equal(a.shape, b.shape, [](const Expression& x, const Expression& y) {
           return x.str() == y.str();
         });
}

/// Runs through the operators once. A value of the given graph stands for memory: `now` is the
/// value of the new graph that has its content.
class Functional {
 public:
  explicit Functional(Graph& graph) : graph_(graph), new_(graph) {
    for (size_t v = 0; v < graph.values.size(); ++v) memory_.push_back({static_cast<ValueId>(v)});
  }

  void run() {
    for (new_.at = 0; new_.at < static_cast<OperatorId>(old().size()); ++new_.at) {
      if (is_mutating(new_.at_work()))
        take_write(new_.at_work());
      else
        take(new_.at_work());
    }
    new_.at = static_cast<OperatorId>(old().size()) - 1;
    for (Output& output : graph_.outputs) renew(output.value);
    for (BufferUpdate& update : graph_.updates) update.value = fresh(update.value);
    note_updates();
    new_.finish();
  }

 private:
  struct Memory {
    ValueId now;           // its content
    ValueId parent = -1;   // what it is a view of; or the same memory, if there is no `view`
    OperatorId view = -1;  // of the operators given
    int seen = 0;          // the version of the whole memory that `now` is of
    int version = 0;       // of the whole memory, where this is no view
    OperatorId lost = -1;  // the operator whose write nobody can follow here
  };

  [[noreturn]] void refuse(const Operator& op, const std::string& problem,
                           const std::string& cure = "") const {
    const std::string module = op.modules.empty() ? "" : " in " + op.modules.back();
    throw InputError(
        graph_.path, fmt::format("operator {} ({}){} {}", full_name(op), op.name, module, problem),
        cure.empty() ? "Export the model with tools/export_model.py, or call "
                       "program.run_decompositions({}) before torch.export.save: both replace "
                       "writes."
                     : cure);
  }

  ValueId root(ValueId v) const {
    while (memory_[v].parent >= 0) v = memory_[v].parent;
    return v;
  }

  /// The value that has what is in this memory now; views are rebuilt where it was written.
  ValueId fresh(ValueId v) {
    Memory& own = memory_[v];
    if (own.lost >= 0)
      refuse(old()[own.lost], fmt::format("writes to memory that {} reads again as `{}`",
                                          new_.at_work().name, graph_.values[v].name));
    const int version = memory_[root(v)].version;
    if (own.parent < 0 || own.seen == version) return own.now;
    const ValueId source = fresh(own.parent);
    if (own.view >= 0) {
      rebuild_view(old()[own.view]);
      return memory_[v].now;
    }
    own.now = source;
    own.seen = version;
    return source;
  }

  void rebuild_view(const Operator& view) {
    if (may_be_view(view))
      refuse(view, fmt::format("gives a view or a copy, and {} reads it after a write",
                               new_.at_work().name));
    Operator rebuilt = view;
    for (Argument& argument : rebuilt.arguments) renew(argument.value);
    for (ValueId& output : rebuilt.outputs) {
      if (output < 0) continue;
      const ValueId replacement = new_.add_value(graph_.values[output]);
      memory_[output].now = replacement;
      memory_[output].seen = memory_[root(output)].version;
      output = replacement;
    }
    new_.emit_helper(std::move(rebuilt));
  }

  void renew(ArgumentValue& value) {
    if (auto* one = std::get_if<TensorRef>(&value)) one->value = fresh(one->value);
    if (auto* list = std::get_if<TensorList>(&value))
      for (auto& element : list->values)
        if (element) element = fresh(*element);
  }

  /// An operator that does not write.
  void take(const Operator& op) {
    note_views(op);
    Operator taken = op;
    for (Argument& argument : taken.arguments) renew(argument.value);
    new_.emit(std::move(taken));
  }

  void note_views(const Operator& op) {
    const bool may_be = may_be_view(op);
    const std::vector<ValueId> reads = op.reads();
    if ((!may_be && !is_view(op)) || reads.empty()) return;
    const bool each = std::holds_alternative<TensorList>(op.arguments[0].value);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const ValueId output = op.outputs[i],
                    source = reads[each ? std::min(i, reads.size() - 1) : 0];
      if (output < 0 || source == output) continue;
      if (may_be && graph_.values[output].dtype != graph_.values[source].dtype) continue;
      Memory& own = memory_[output];
      own.parent = source;
      own.view = new_.at;
      own.seen = memory_[root(source)].version;
    }
  }

  void take_write(const Operator& op) {
    auto form = functional_form(graph_, op);
    if (!form) refuse(op, "writes to its input");
    std::vector<std::pair<ValueId, ValueId>> writes;  // memory, and what it becomes
    for (const auto& [name, output] : form->written) {
      const ArgumentValue* value = argument(op, name);
      const auto* target = value ? std::get_if<TensorRef>(value) : nullptr;
      if (!target) refuse(op, "writes to its input");
      check_target(op, target->value);
      writes.emplace_back(target->value, -1);
    }
    for (Argument& argument : form->op.arguments) renew(argument.value);
    const bool copies = traits_of(op).writes == OperatorTraits::Writes::copy;
    if (copies && copied_whole(op, *form, writes)) return;
    for (size_t i = 0; i < writes.size(); ++i)
      writes[i].second = output_of(*form, form->written[i].second, writes[i].first);
    emit_form(*form);
    for (const auto& [memory, value] : writes) write(memory, value);
  }

  /// Nothing has to be computed where all of it is taken from a tensor of the same form.
  bool copied_whole(const Operator& op, const FunctionalForm& form,
                    const std::vector<std::pair<ValueId, ValueId>>& writes) {
    const ArgumentValue* source = argument(form.op, "self");
    const auto* from = source ? std::get_if<TensorRef>(source) : nullptr;
    const ValueId memory = writes[0].first;
    if (!from || !same_shape(graph_.values[from->value], graph_.values[memory])) return false;
    name_result(op, memory);
    if (from->value != memory_[memory].now) write(memory, from->value);
    return true;
  }

  /// The result of a writing operator is the memory that it wrote.
  void name_result(const Operator& op, ValueId memory) {
    if (op.outputs.empty() || op.outputs[0] < 0 || op.outputs[0] == memory) return;
    Memory& own = memory_[op.outputs[0]];
    own.parent = memory;
    own.seen = -1;
  }

  /// The value that takes the place of what is written; added where the operator gave none.
  ValueId output_of(FunctionalForm& form, size_t index, ValueId memory) {
    auto& outputs = form.op.outputs;
    if (outputs.size() <= index) outputs.resize(index + 1, -1);
    const bool whole = index == 0;
    if (whole) name_result(form.op, memory);
    if (outputs[index] < 0) outputs[index] = new_.add_value(graph_.values[memory]);
    return outputs[index];
  }

  /// The operator, and after it a cast where its result is not of the type that is written.
  void emit_form(FunctionalForm& form) {
    if (!form.changes_type) return new_.emit(std::move(form.op));
    const ValueId result = form.op.outputs[0];
    Value before = graph_.values[result];
    if (form.op.target == "aten::expand") before.dtype = graph_.values[form.op.reads()[0]].dtype;
    form.op.outputs[0] = new_.add_value(std::move(before));
    Operator cast;
    cast.target = "aten::_to_copy";
    cast.arguments = {{"self", TensorRef{form.op.outputs[0]}},
                      {"dtype", graph_.values[result].dtype}};
    cast.outputs = {result};
    new_.emit(std::move(form.op));
    emit_in_region(std::move(cast));
  }

  void check_target(const Operator& op, ValueId v) const {
    const Value& memory = graph_.values[root(v)];
    if (memory.kind == Value::Kind::user_input)
      refuse(op, fmt::format("writes to the model's input `{}`", memory.name),
             "Write x = x + 1 instead of x += 1 in the model, and export it again.");
    if (memory.kind == Value::Kind::tensor &&
        graph_.tensors[memory.tensor].kind != StoredTensor::Kind::buffer)
      refuse(op,
             fmt::format("writes to `{}`, which is no buffer", graph_.tensors[memory.tensor].name),
             "Leave parameters to the optimizer, and write to a copy: x.clone().");
    for (; !op.grad_enabled && v >= 0; v = memory_[v].parent)
      if (new_.needs_gradient(memory_[v].now))
        refuse(
            op,
            fmt::format("writes without gradient to `{}`, which needs one", graph_.values[v].name),
            "Write to a copy without gradient in the model: x.detach().clone().");
  }

  /// `memory` becomes `value`, and with it all that it is a view of.
  void write(ValueId memory, ValueId value) {
    const ValueId whole = root(memory);
    std::vector<ValueId> above;  // what it is a view of, nearest first
    for (ValueId v = memory_[memory].parent; v >= 0 && memory_[v].lost < 0; v = memory_[v].parent) {
      fresh(v);
      above.push_back(v);
    }
    const int version = ++memory_[whole].version;
    settle(memory, value, version);
    ValueId part = memory;
    for (const ValueId v : above) {
      const std::optional<ValueId> put = put_into(v, part);
      if (!put) return lose(v);
      settle(v, *put, version);
      part = v;
    }
  }

  void settle(ValueId memory, ValueId value, int version) {
    memory_[memory].now = value;
    memory_[memory].seen = version;
  }

  void lose(ValueId v) {
    for (; v >= 0; v = memory_[v].parent) memory_[v].lost = new_.at;
  }

  /// The value of `whole` with what `part`, a view of it, has become.
  std::optional<ValueId> put_into(ValueId whole, ValueId part) {
    if (memory_[part].view < 0) return memory_[part].now;
    const Operator& view = old()[memory_[part].view];
    const bool stored = graph_.values[root(whole)].kind == Value::Kind::tensor;
    if (is_view(view) && stops_gradient(view) && stored) return memory_[part].now;
    if (may_be_view(view)) return std::nullopt;
    auto op = put_back(graph_, view, memory_[whole].now, memory_[part].now);
    if (!op) return std::nullopt;
    const ValueId result = new_.add_value(graph_.values[whole]);
    op->outputs = {result};
    emit_in_region(std::move(*op));
    return result;
  }

  /// An operator that runs as the one at work does.
  void emit_in_region(Operator op) {
    op.grad_enabled = new_.at_work().grad_enabled;
    op.autocast = new_.at_work().autocast;
    new_.emit_helper(std::move(op));
  }

  void note_updates() {
    for (ValueId v = 0; v < static_cast<ValueId>(memory_.size()); ++v) {
      const Value& value = graph_.values[v];
      if (value.kind != Value::Kind::tensor || memory_[v].version == 0) continue;
      const int tensor = value.tensor;
      const ValueId now = fresh(v);
      const auto is_of_tensor = [&](const BufferUpdate& update) { return update.tensor == tensor; };
      if (now != v && std::ranges::none_of(graph_.updates, is_of_tensor))
        graph_.updates.push_back({tensor, now});
    }
  }

  const std::vector<Operator>& old() const { return new_.old(); }

  Graph& graph_;
  FunctionalBuilder new_;
  std::vector<Memory> memory_;  // by value of the given graph
};

}  // namespace

void make_functional(Graph& graph) {
  if (std::ranges::any_of(graph.operators, is_mutating)) Functional(graph).run();
}

}  // namespace penstock
