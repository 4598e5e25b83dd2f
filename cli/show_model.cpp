#include <fmt/format.h>

#include <iterator>

#include "base/quantity.hpp"
#include "cli/report/module_tree.hpp"
#include "cli/report/show_text.hpp"
#include "graph/cuts/cuts.hpp"

namespace penstock::cli {

namespace {

using Out = std::back_insert_iterator<std::string>;

std::string batch_line(const Graph& model) {
  std::string text = model.dynamic_batch ? "any number of samples" : "fixed";
  if (model.dynamic_batch && (model.min_batch > 1 || model.max_batch < INT64_MAX)) {
    text = fmt::format("{} samples or more", model.min_batch);
    if (model.max_batch < INT64_MAX) {
      text = fmt::format("{} to {} samples", model.min_batch, model.max_batch);
    }
  }
  text += fmt::format(", exported with {}; ", model.example_batch);
  if (!model.batch_coupled) return text + "whether samples influence each other was not checked";
  return text + (*model.batch_coupled
                     ? "samples influence each other: the microbatch changes the training"
                     : "samples are independent of each other");
}

void print_sizes(Out out, const Graph& model) {
  int64_t parameters = 0, parameter_bytes = 0, buffer_bytes = 0, tensors = 0;
  bool weights = false;
  for (const StoredTensor& tensor : model.tensors) {
    weights |= !tensor.file.empty();
    if (tensor.kind == StoredTensor::Kind::parameter) {
      parameters += tensor.elements();
      parameter_bytes += tensor.bytes();
      ++tensors;
    } else {
      buffer_bytes += tensor.bytes();
    }
  }
  fmt::format_to(out, "{}\n\n  parameters  {} in {} tensors, {}{}\n", model.path,
                 format_count(static_cast<double>(parameters)), tensors,
                 format_bytes(parameter_bytes),
                 weights || tensors == 0 ? "" : "; without weights (exported on meta)");
  if (buffer_bytes > 0) fmt::format_to(out, "  buffers     {}\n", format_bytes(buffer_bytes));
  fmt::format_to(out, "  batch       {}\n", batch_line(model));
}

void print_ends(Out out, const Graph& model) {
  for (const ValueId input : model.inputs) {
    const Value& value = model.values[static_cast<size_t>(input)];
    fmt::format_to(out, "  input       {}: {}\n", value.name, shape_text(value));
  }
  for (const Output& output : model.outputs) {
    const TensorRef* tensor = std::get_if<TensorRef>(&output.value);
    fmt::format_to(
        out, "  output      {}: {}\n", output.name,
        tensor ? shape_text(model.values[static_cast<size_t>(tensor->value)]) : "no tensor");
  }
}

/// pipe_split() calls in the model's code.
void print_markers(Out out, const Graph& model) {
  for (size_t k = 0; k < model.markers.size(); ++k) {
    const OperatorId next = model.markers[k];
    const std::string& op = model.operators[static_cast<size_t>(next)].name;
    const std::string name = begin_name(model, next);
    fmt::format_to(out, "  pipe_split  @{} before {}{}\n", k, name,
                   name == op ? "" : fmt::format(" ({})", op));
  }
}

}  // namespace

std::string shape_text(const Value& value) {
  std::string shape;
  for (const Expression& size : value.shape) {
    shape += fmt::format("{}{}", shape.empty() ? "" : ", ", size.str());
  }
  return fmt::format("{} [{}]", name(value.dtype), shape);
}

std::string model_text(const Graph& model, const MicrobatchCosts* costs) {
  std::string text;
  const Out out(text);
  print_sizes(out, model);
  print_ends(out, model);
  print_markers(out, model);
  if (costs)
    fmt::format_to(out, "  times       of a microbatch of {}, as profiled\n", costs->microbatch);
  return text + "\n" + module_table(module_tree(model, costs), costs != nullptr);
}

}  // namespace penstock::cli
