#include <fmt/format.h>

#include "base/quantity.hpp"
#include "cli/report/module_tree.hpp"
#include "cli/show/lines.hpp"
#include "cli/show/show_text.hpp"
#include "graph/analysis/coupling.hpp"
#include "graph/analysis/mean_of_targets.hpp"
#include "graph/cuts/cuts.hpp"

namespace penstock::cli {

namespace {

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

void add_batch(Lines& lines, const Graph& model) {
  const Analysis analysis = analyse(model);
  const std::vector<Coupling> found = couplings(model, analysis);
  const bool coupled = model.batch_coupled.value_or(false) || !found.empty();
  lines.add("batch", batch_line(model, coupled));
  if (!found.empty()) {
    lines.add("coupled by",
              describe(model, found.front()) +
                  (found.size() == 1 ? "" : fmt::format("; {} more", found.size() - 1)));
  }
  if (const std::optional<MeanLoss> loss = mean_loss(model, analysis)) {
    lines.add("loss",
              fmt::format("{} is a mean over the targets that are not {}: microbatches "
                          "are weighted by theirs",
                          model.operators[static_cast<size_t>(loss->op)].name, loss->ignored));
  }
}

void add_sizes(Lines& lines, const Graph& model) {
  int64_t parameters = 0, parameter_bytes = 0, buffer_bytes = 0, tensors = 0;
  bool weights = false;
  for (const StoredTensor& tensor : model.tensors) {
    if (tensor.kind == StoredTensor::Kind::parameter) {
      weights |= !tensor.file.empty();
      parameters += tensor.elements();
      parameter_bytes += tensor.bytes();
      ++tensors;
    } else {
      buffer_bytes += tensor.bytes();
    }
  }
  lines.add("parameters",
            fmt::format("{} in {}, {}{}", format_count(double(parameters)),
                        format_number(tensors, "tensor"), format_bytes(parameter_bytes),
                        weights || tensors == 0 ? "" : "; without weights (exported with --meta)"));
  if (buffer_bytes > 0) lines.add("buffers", format_bytes(buffer_bytes));
}

void add_ends(Lines& lines, const Graph& model) {
  for (const ValueId input : model.inputs) {
    const Value& value = model.values[static_cast<size_t>(input)];
    lines.add("input", value.name + ": " + value.type());
  }
  for (const Output& output : model.outputs) {
    const TensorRef* tensor = std::get_if<TensorRef>(&output.value);
    lines.add("output",
              output.name + ": " +
                  (tensor ? model.values[static_cast<size_t>(tensor->value)].type() : "no tensor"));
  }
}

/// pipe_split() calls in the model's code.
void add_markers(Lines& lines, const Graph& model) {
  for (size_t k = 0; k < model.markers.size(); ++k) {
    const OperatorId next = model.markers[k];
    const std::string& op = model.operators[static_cast<size_t>(next)].name;
    const std::string name = begin_name(model, next);
    lines.add("pipe_split",
              fmt::format("@{} before {}{}", k, name, name == op ? "" : fmt::format(" ({})", op)));
  }
}

}  // namespace

std::string model_text(const Graph& model, const MicrobatchCosts* costs, ReportStyle style) {
  Lines lines(style.columns);
  add_sizes(lines, model);
  add_batch(lines, model);
  add_ends(lines, model);
  add_markers(lines, model);
  if (costs)
    lines.add("times", fmt::format("of a microbatch of {}, as profiled", costs->microbatch));
  return fmt::format("{}\n\n{}\n{}", model.path, lines.text(),
                     module_table(module_tree(model, costs), costs != nullptr, style.columns));
}

}  // namespace penstock::cli
