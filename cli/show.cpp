// `penstock show`: what is in a model or a plan.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/module_tree.hpp"
#include "cli/stage_names.hpp"
#include "cli/table.hpp"
#include "graph/analysis.hpp"
#include "graph/cuts.hpp"
#include "graph/error.hpp"
#include "graph/flops.hpp"
#include "graph/pt2.hpp"
#include "pipeline/parameters.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/quantity.hpp"

namespace penstock::cli {

namespace {

std::string describe(const Value& value) {
  std::string shape;
  for (const Expression& size : value.shape) {
    shape += fmt::format("{}{}", shape.empty() ? "" : ", ", size.str());
  }
  return fmt::format("{} [{}]", name(value.dtype), shape);
}

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

void print_sizes(const Graph& model) {
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
  fmt::print("{}\n\n  parameters  {} in {} tensors, {}{}\n", model.path,
             format_count(static_cast<double>(parameters)), tensors, format_bytes(parameter_bytes),
             weights || tensors == 0 ? "" : "; without weights (exported on meta)");
  if (buffer_bytes > 0) fmt::print("  buffers     {}\n", format_bytes(buffer_bytes));
  fmt::print("  batch       {}\n", batch_line(model));
}

void print_ends(const Graph& model) {
  for (const ValueId input : model.inputs) {
    const Value& value = model.values[static_cast<size_t>(input)];
    fmt::print("  input       {}: {}\n", value.name, describe(value));
  }
  for (const Output& output : model.outputs) {
    const TensorRef* tensor = std::get_if<TensorRef>(&output.value);
    fmt::print("  output      {}: {}\n", output.name,
               tensor ? describe(model.values[static_cast<size_t>(tensor->value)]) : "no tensor");
  }
}

/// pipe_split() calls in the model's code.
void print_markers(const Graph& model) {
  for (size_t k = 0; k < model.markers.size(); ++k) {
    const OperatorId next = model.markers[k];
    const std::string& op = model.operators[static_cast<size_t>(next)].name;
    const std::string name = begin_name(model, next);
    fmt::print("  pipe_split  @{} before {}{}\n", k, name,
               name == op ? "" : fmt::format(" ({})", op));
  }
}

int show_model(const std::string& path) {
  const Graph model = read_pt2(path);
  print_sizes(model);
  print_ends(model);
  print_markers(model);
  fmt::print("\n{}", module_table(module_tree(model)));
  return 0;
}

void print_stages(const Plan& plan, const Graph& model, const Slicing& slicing) {
  const std::vector<std::string> names =
      stage_names(model, slicing.stage_of_operator, static_cast<int>(plan.stages.size()));
  Table table({"stage", "rank", "<modules", "operators", "parameters", "bytes", "FLOPs"});
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageSlice& slice = slicing.stages[stage];
    int64_t elements = 0, size = 0;
    for (const int index : slice.tensors) {
      const StoredTensor& tensor = model.tensors[static_cast<size_t>(index)];
      if (tensor.kind != StoredTensor::Kind::parameter) continue;
      elements += tensor.elements();
      size += tensor.bytes();
    }
    double flops = 0;
    for (const OperatorId id : slice.operators) {
      flops += forward_flops(model, model.operators[static_cast<size_t>(id)], plan.microbatch);
    }
    table.row({std::to_string(stage), std::to_string(plan.stages[stage].rank),
               names[stage] + recompute_note(plan.stages[stage].recompute),
               std::to_string(slice.operators.size()), format_count(static_cast<double>(elements)),
               format_bytes(size), format_count(flops)});
  }
  fmt::print("\nStages, FLOPs of a microbatch's forward\n\n{}", table.text());
}

void print_cuts(const Plan& plan, const Graph& model, const Slicing& slicing) {
  if (slicing.edges.empty()) return;
  Table table({"<stages", "<value", "<is", "forward", "backward"});
  for (const StageEdge& edge : slicing.edges) {
    for (const Crossing& crossing : edge.values) {
      const Value& value = model.values[static_cast<size_t>(crossing.value)];
      const std::string size = format_bytes(value.bytes(plan.microbatch));
      table.row({fmt::format("{} to {}", edge.producer, edge.consumer), value.name, describe(value),
                 size, crossing.carries_gradient ? size : "-"});
    }
  }
  fmt::print("\nWhat crosses between stages, per microbatch\n\n{}", table.text());
}

void print_shared(const Graph& model, const Slicing& slicing) {
  if (slicing.shared.empty()) return;
  fmt::print("\nParameters of several stages: replicated, their gradients summed\n\n");
  for (const Slicing::Shared& shared : slicing.shared) {
    std::string stages;
    for (const int stage : shared.stages) {
      stages += fmt::format("{}{}", stages.empty() ? "" : ", ", stage);
    }
    const StoredTensor& tensor = model.tensors[static_cast<size_t>(shared.tensor)];
    fmt::print("  {}  {}, stages {}\n", tensor.name, format_bytes(tensor.bytes()), stages);
  }
}

void print_prediction(const Plan& plan) {
  if (!plan.prediction) return;
  fmt::print("\nPredicted when planned: {} per step, bubble {:.1f} %\n",
             format_seconds(plan.prediction->step_s), 100 * plan.prediction->bubble);
}

int show_plan(const std::string& path) {
  const Plan plan = read_plan(path);
  const Graph model = read_model(plan.job);
  check_fingerprint(plan, model);
  const Slicing slicing = slice(plan, model, analyse(model));
  fmt::print("{}: {} on {} rank{}, {} microbatch{} of {} sample{}\n", path,
             plan.program.empty() ? plan.schedule : plan.program, plan.ranks(),
             plan.ranks() == 1 ? "" : "s", plan.microbatches, plan.microbatches == 1 ? "" : "es",
             plan.microbatch, plan.microbatch == 1 ? "" : "s");
  if (plan.data_parallel > 1) fmt::print("{} replicas\n", plan.data_parallel);
  print_stages(plan, model, slicing);
  print_cuts(plan, model, slicing);
  print_shared(model, slicing);
  print_prediction(plan);
  return 0;
}

}  // namespace

int show(const ShowOptions& options) {
  const std::string extension = std::filesystem::path(options.path).extension();
  if (extension == ".pt2") return show_model(options.path);
  if (extension == ".yaml" || extension == ".yml") return show_plan(options.path);
  throw InputError(options.path, "neither a model nor a plan by its name",
                   "Give a MODEL.pt2 or a PLAN.yaml.");
}

}  // namespace penstock::cli
