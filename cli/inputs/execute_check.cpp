#include "cli/inputs/execute_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/safetensors.hpp"
#include "cli/files/given_paths.hpp"
#include "cli/inputs/costed_model.hpp"
#include "cli/inputs/plan_inputs.hpp"
#include "cli/inputs/resumed.hpp"
#include "cli/workers/worker_options.hpp"
#include "graph/evaluation/evaluation.hpp"
#include "graph/pt2/initial_values.hpp"
#include "pipeline/checkpoint/saved.hpp"
#include "pipeline/job/dataset.hpp"
#include "pipeline/job/expected_samples.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/tensor_parallel.hpp"
#include "pipeline/plan/validation_parts.hpp"
#include "pipeline/weights/match.hpp"

namespace penstock::cli {

namespace {

constexpr const char* kGraphsFlag = "--cuda-graphs";

void refuse(const char* flag, const char* problem, const char* cure) {
  throw InputError(flag, problem, cure);
}

void check_flags(const ExecuteOptions& options) {
  check_workers(options.workers);
  if (options.workers.device == "cpu" && !options.cuda_graphs.empty()) {
    refuse(kGraphsFlag, "is for GPUs", "Add --device cuda, or leave it out.");
  }
  parse_cuda_graphs(options.cuda_graphs, kGraphsFlag);
  if (options.steps && *options.steps < 1) {
    throw InputError("--steps", fmt::format("{} steps", *options.steps), "Give at least 1.");
  }
  if (!options.weights.empty() && !options.resume.empty() && !may_begin(options)) {
    refuse("--weights, --resume", "both say which weights to start from", "Leave one out.");
  }
  check_no_standard_output("--output", options.output);
  check_no_standard_output("--dump-gradients", options.dump_gradients);
  check_no_standard_output("--metrics", options.metrics);
  if (options.save.empty() && (options.save_every || options.keep)) {
    refuse(options.save_every ? "--save-every" : "--keep",
           "is for checkpoints, of which none is made", "Add --save DIR.");
  }
}

/// Flags that are for training, and those that are for inference.
void check_purpose(const ExecuteOptions& options, bool forward_only) {
  if (!forward_only) {
    if (!options.output.empty())
      refuse("--output", "is for outputs of forwards", "Add --forward-only, or leave it out.");
    return;
  }
  if (options.fed)
    refuse(options.plan.c_str(), "is a plan for inference", "Make one for training.");
  const char* cure = options.forward_only ? "Leave out --forward-only." : "Leave it out.";
  if (!options.dump_gradients.empty())
    refuse("--dump-gradients", "forwards have no gradients", cure);
  if (!options.save.empty()) refuse("--save", "is for training", cure);
}

void check_model(const Plan& plan, const Graph& graph) {
  check_fingerprint(plan, graph);
  const int64_t batch = plan.microbatch;
  const bool fits = graph.dynamic_batch ? batch >= graph.min_batch && batch <= graph.max_batch
                                        : batch == graph.example_batch;
  if (fits) return;
  throw InputError(
      plan.path,
      fmt::format("microbatch {}, but {} was exported for {}", batch, graph.path,
                  graph.dynamic_batch
                      ? fmt::format("{} to {} samples", graph.min_batch, graph.max_batch)
                      : fmt::format("exactly {}", graph.example_batch)),
      "Choose another microbatch, or export the model with a dynamic batch.");
}

/// The model can be evaluated on the whole validation set.
void check_evaluation(const CheckedRun& checked, const std::optional<GroupTensors>& group) {
  const Job& job = checked.plan.job;
  if (job.forward_only || !job.validation) return;
  in_evaluation(checked.graph);
  const auto samples = open_dataset(validation_job(job), checked.graph)->samples();
  for (const ValidationPart& part :
       validation_parts("validation", checked.plan, checked.graph, samples)) {
    if (group && part.microbatch != checked.plan.microbatch)
      with_batch(checked.plan, *group, part.microbatch);
  }
}

/// The outputs that are asked for can be written at the end.
void check_written(const ExecuteOptions& options, const Graph& graph) {
  const auto check = [](const char* flag, const std::string& path, const std::string& tensor,
                        DType dtype) {
    if (!path.empty()) require_storable(flag, tensor, dtype);
  };
  for (const StoredTensor& tensor : graph.tensors) {
    if (!tensor.requires_grad) continue;
    check("--save", options.save, tensor.name, tensor.dtype);
    check("--dump-gradients", options.dump_gradients, tensor.name, tensor.dtype);
  }
  for (const BufferUpdate& update : graph.updates) {
    const StoredTensor& buffer = graph.tensors[update.tensor];
    check("--save", options.save, buffer.name, buffer.dtype);
  }
  for (const Output& output : graph.outputs) {
    const auto* tensor = std::get_if<TensorRef>(&output.value);
    if (!tensor) continue;
    check("--output", options.output, "output " + output.name, graph.values[tensor->value].dtype);
  }
}

}  // namespace

CheckedRun check_execute(const ExecuteOptions& options) {
  check_flags(options);
  CheckedRun checked;
  checked.plan = read_plan(options.plan);
  if (options.forward_only) checked.plan = for_inference(std::move(checked.plan));
  const bool forward_only = checked.plan.job.forward_only;
  check_purpose(options, forward_only);
  require_model(checked.plan, "execute");
  checked.graph = read_model(checked.plan.job);
  check_model(checked.plan, checked.graph);
  if (options.weights.empty()) {
    require_values(checked.graph);
  } else {
    checked.renaming = match_weights(StateFiles(options.weights), checked.graph).renaming;
  }
  check_written(options, checked.graph);
  PlannedModel planned = planned_model(checked.plan, checked.graph);
  checked.part = std::move(planned.graph);
  checked.slicing = slice(checked.plan, checked.part, analyse(checked.part));
  const bool replayed = parse_cuda_graphs(options.cuda_graphs, kGraphsFlag) != CudaGraphs::never;
  make_adaptive(checked.plan, checked.part, checked.slicing,
                replayed ? CudaGraphs::automatic : CudaGraphs::never);
  checked.program = lowered_program(checked.plan, checked.slicing);
  if (options.fed) {
    expected_samples(checked.plan.job, checked.graph);
    return checked;
  }
  open_dataset(checked.plan.job, checked.graph, !forward_only);
  check_evaluation(checked, planned.group);
  return checked;
}

namespace {

/// From `begin` to the run's total.
int64_t steps_left(const ExecuteOptions& options, const Job& job, const RunBegin& begin) {
  const int64_t total = options.steps.value_or(job.forward_only ? 1 : job.steps);
  if (total >= begin.step) return total - begin.step;
  throw InputError(
      begin.checkpoint, fmt::format("has done {} steps, more than the run's {}", begin.step, total),
      "--steps N, or the job's `steps`, is the run's total: give a larger one to go on.");
}

/// The run's first checkpoint is later than those of its folder, but for damaged ones.
void check_saves(const ExecuteOptions& options, const ExecuteTask& task, const RunBegin& begin) {
  if (task.save.empty() || task.steps == 0) return;
  const int64_t last = task.first_step + task.steps;
  const int64_t every = task.save_every > 0 ? task.save_every : last;
  const int64_t first = std::min((task.first_step / every + 1) * every, last);
  check_no_later_steps(options.save, first, begin.damaged);
}

}  // namespace

ExecuteTask execute_task(const ExecuteOptions& options, const CheckedRun& checked,
                         const RunBegin& begin) {
  const Plan& plan = checked.plan;
  ExecuteTask task;
  task.forward_only = plan.job.forward_only;
  task.plan = std::filesystem::absolute(options.plan).string();
  task.plan_sha256 = sha256_of_file(options.plan);
  if (plan.generated) task.program = to_csv(*plan.generated);
  task.resume = begin.checkpoint;
  task.first_step = begin.step;
  task.steps = options.fed ? 1 : steps_left(options, plan.job, begin);
  task.save_every = options.save_every.value_or(0);
  task.keep = options.keep.value_or(task.keep);
  task.cuda_graphs = parse_cuda_graphs(options.cuda_graphs, kGraphsFlag);
  task.metrics = !(options.metrics + options.tensorboard).empty();
  task.timeline = !options.trace.empty();
  const auto absolute = [](const std::string& path) {
    return path.empty() ? path : std::filesystem::absolute(path).string();
  };
  task.save = absolute(options.save);
  task.output = absolute(options.output);
  task.weights = absolute(options.weights);
  task.dump_gradients = absolute(options.dump_gradients);
  check_saves(options, task, begin);
  return task;
}

}  // namespace penstock::cli
