#include <fmt/format.h>

#include <iterator>

#include "base/quantity.hpp"
#include "cli/report/module_tree.hpp"
#include "cli/report/show_text.hpp"
#include "graph/analysis/coupling.hpp"
#include "graph/analysis/mean_of_targets.hpp"
#include "graph/cuts/cuts.hpp"

namespace penstock::cli {

namespace {

using Out = std::back_insert_iterator<std::string>;

std::string batch_line(const Graph& model, bool coupled) {
  std::string text = model.dynamic_batch ? "any number of samples" : "fixed";
  if (model.dynamic_batch && (model.min_batch > 1 || model.max_batch < INT64_MAX)) {
    text = fmt::format("{} samples or more", model.min_batch);
    if (model.max_batch < INT64_MAX) {
      text = fmt::format("{} to {} samples", model.min_batch, model.max_batch);
    }
  }
  text += fmt::format(", exported with {}; ", model.example_batch);
  if (coupled) return text + "samples influence each other: the microbatch changes the training";
  return text + (model.batch_coupled ? "samples are independent of each other"
                                     : "whether samples influence each other was not checked");
}

void print_batch(Out out, const Graph& model) {
  const Analysis analysis = analyse(model);
  const std::vector<Coupling> found = couplings(model, analysis);
  const bool coupled = model.batch_coupled.value_or(false) || !found.empty();
  fmt::format_to(out, "  batch       {}\n", batch_line(model, coupled));
  if (!found.empty()) {
    fmt::format_to(out, "  coupled by  {}{}\n", describe(model, found.front()),
                   found.size() == 1 ? "" : fmt::format("; {} more", found.size() - 1));
  }
  if (const std::optional<MeanLoss> loss = mean_loss(model, analysis)) {
    fmt::format_to(out,
                   "  loss        {} is a mean over the targets that are not {}: microbatches "
                   "are weighted by theirs\n",
                   model.operators[static_cast<size_t>(loss->op)].name, loss->ignored);
  }
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
  print_batch(out, model);
}

void print_ends(Out out, const Graph& model) {
  for (const ValueId input : model.inputs) {
    const Value& value = model.values[static_cast<size_t>(input)];
    fmt::format_to(out, "  input       {}: {}\n", value.name, value.type());
  }
  for (const Output& output : model.outputs) {
    const TensorRef* tensor = std::get_if<TensorRef>(&output.value);
    fmt::format_to(out, "  output      {}: {}\n", output.name,
                   tensor ? model.values[static_cast<size_t>(tensor->value)].type() : "no tensor");
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
