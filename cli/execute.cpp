// penstock execute: trains a plan, or runs its forwards, on workers of this machine; under
// torchrun it is one of the ranks. Everything that can be checked without LibTorch is checked
// before a worker starts.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "cli/commands.hpp"
#include "cli/execute_report.hpp"
#include "cli/launch.hpp"
#include "cli/workers.hpp"
#include "graph/error.hpp"
#include "graph/file.hpp"
#include "graph/pt2.hpp"
#include "pipeline/checkpoint.hpp"
#include "pipeline/dataset.hpp"
#include "pipeline/execute_task.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/timeline.hpp"

namespace penstock::cli {

namespace {

/// The plan with all that follows from it, checked.
struct Checked {
  Plan plan;
  Graph graph;
  Slicing slicing;
  Program program;
};

/// A file or folder at `path` can be made.
void check_folder_of(const std::string& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  if (std::filesystem::is_directory(folder)) return;
  throw InputError(path, fmt::format("{} is not a folder", folder.string()),
                   "Make it, or write elsewhere.");
}

void check_flags(const ExecuteOptions& options) {
  const auto refuse = [](const char* flag, const char* problem, const char* cure) {
    throw InputError(flag, problem, cure);
  };
  if (options.device != "cpu") {
    throw InputError("--device", fmt::format("{} is not available in this build", options.device),
                     "Use --device cpu.");
  }
  if (options.forward_only && options.output.empty()) {
    refuse("--forward-only", "has nowhere to write the outputs", "Add --output OUT.safetensors.");
  }
  if (!options.forward_only && !options.output.empty()) {
    refuse("--output", "is for outputs of forwards", "Add --forward-only, or leave it out.");
  }
  if (options.forward_only && !options.dump_gradients.empty()) {
    refuse("--dump-gradients", "forwards have no gradients", "Leave out --forward-only.");
  }
  if (options.steps && *options.steps < 1) {
    throw InputError("--steps", fmt::format("{} steps", *options.steps), "Give at least 1.");
  }
  if (options.forward_only && !(options.save + options.resume).empty()) {
    refuse("--save, --resume", "are for training", "Leave out --forward-only.");
  }
  if (options.save_every < 0 || (options.save_every > 0 && options.save.empty())) {
    refuse("--save-every", "needs --save DIR, and a number of steps", "Add --save DIR.");
  }
  for (const std::string& path : {options.output, options.dump_gradients, options.trace, options.save}) {
    if (!path.empty()) check_folder_of(path);
  }
}

void check_model(const Plan& plan, const Graph& graph) {
  check_fingerprint(plan, graph);
  for (const StoredTensor& tensor : graph.tensors) {
    if (tensor.file.empty() && tensor.elements() > 0) {
      throw InputError(graph.path, fmt::format("has no weights ({}): it was exported with --meta",
                                               tensor.name), "Export it again without --meta.");
    }
  }
  const int64_t batch = plan.microbatch;
  const bool fits = graph.dynamic_batch ? batch >= graph.min_batch && batch <= graph.max_batch
                                        : batch == graph.example_batch;
  if (fits) return;
  throw InputError(plan.path, fmt::format("microbatch {}, but {} was exported for {}", batch, graph.path,
                                          graph.dynamic_batch
                                              ? fmt::format("{} to {} samples", graph.min_batch, graph.max_batch)
                                              : fmt::format("exactly {}", graph.example_batch)),
                   "Choose another microbatch, or export the model with a dynamic batch.");
}

Checked check_inputs(const ExecuteOptions& options) {
  check_flags(options);
  Checked checked;
  checked.plan = read_plan(options.plan);
  checked.graph = read_pt2(checked.plan.job.model);
  check_model(checked.plan, checked.graph);
  checked.slicing = slice(checked.plan, checked.graph, analyse(checked.graph));
  checked.program = lowered_program(checked.plan, checked.slicing, options.forward_only);
  open_dataset(checked.plan.job, checked.graph, !options.forward_only);
  return checked;
}

ExecuteTask make_task(const ExecuteOptions& options, const Plan& plan,
                      const std::string& model_sha256) {
  ExecuteTask task;
  task.plan = std::filesystem::absolute(options.plan).string();
  task.plan_sha256 = sha256_of_file(options.plan);
  if (!options.resume.empty()) {
    const auto checkpoint = find_checkpoint(std::filesystem::absolute(options.resume));
    task.first_step = read_checkpoint(checkpoint, plan, model_sha256).step;
    task.resume = checkpoint.string();
  }
  task.steps = options.steps.value_or(options.forward_only ? 1 : plan.job.steps - task.first_step);
  if (task.steps < 1) {
    throw InputError(task.resume, fmt::format("has done all {} steps of the job", plan.job.steps),
                     "Give --steps N to train N more.");
  }
  task.save_every = options.save_every;
  task.forward_only = options.forward_only;
  task.timeline = !options.trace.empty();
  const auto absolute = [](const std::string& path) {
    return path.empty() ? path : std::filesystem::absolute(path).string();
  };
  task.save = absolute(options.save);
  task.output = absolute(options.output);
  task.dump_gradients = absolute(options.dump_gradients);
  return task;
}

/// Takes in what rank 0 reports.
class Listener {
 public:
  Listener(const Plan& plan, const ExecuteTask& task, std::string trace)
      : progress_(plan, task.first_step, task.steps), trace_(std::move(trace)) {}

  void take(const nlohmann::json& event) {
    const std::string name = event.at("event");
    if (name == "step") step(event);
    if (name == "summary") summary(event);
    if (name == "warning") fmt::print(stderr, "{}\n", event.at("message").get<std::string>());
    if (name == "timeline") {
      write_file(trace_, to_chrome_trace({fmt::format("executed, step {}", event.at("step").get<int64_t>()),
                                          parse_timeline(event.at("events")), {}}));
    }
  }
  const ExecuteResult& result() const { return result_; }

 private:
  void step(const nlohmann::json& event) {
    result_.step_s.push_back(event.at("step_s").get<double>());
    std::optional<double> loss;
    if (event.contains("loss")) result_.losses.push_back(*(loss = event.at("loss").get<double>()));
    progress_.show(event.at("step").get<int64_t>(), loss, result_.step_s.back());
  }

  void summary(const nlohmann::json& event) {
    const auto& ranks = event.at("ranks");
    const auto count = static_cast<double>(ranks.size());
    for (const auto& rank : ranks) {
      result_.peak_memory_bytes.push_back(rank.at("peak_memory_bytes").get<int64_t>());
      result_.probe.gemm_s += rank.at("gemm_s").get<double>() / count;
      result_.probe.copy_s += rank.at("copy_s").get<double>() / count;
    }
  }

  StepProgress progress_;
  std::string trace_;
  ExecuteResult result_;
};

}  // namespace

int execute(const ExecuteOptions& options) {
  const Checked checked = check_inputs(options);
  const std::optional<Launcher> launcher = find_launcher();
  const ExecuteTask task = make_task(options, checked.plan, checked.graph.sha256);
  std::string no_prediction;
  const auto predicted = predict(checked.plan, checked.graph, checked.slicing, checked.program,
                                 no_prediction);
  const int pipeline_ranks = checked.plan.ranks();
  const int ranks = pipeline_ranks * static_cast<int>(checked.plan.data_parallel);
  std::optional<Listener> listener(std::in_place, checked.plan, task, options.trace);
  const Program executed = delay_receives(checked.program);  // as the workers do
  Workers workers(make_tasks(launcher, ranks, "execute", to_json(task)),
                  [&](int rank, int position) {
                    return to_string(executed.ranks[rank % pipeline_ranks].at(position));
                  });
  const auto failure = workers.run([&](size_t, const nlohmann::json& event) { listener->take(event); });
  const ExecuteResult result = listener->result();
  listener.reset();  // its line is gone from the terminal
  if (failure) {
    fmt::print(stderr, "penstock: {}\n", failure->message);
    return failure->status;
  }
  if (launcher && launcher->rank != 0) return 0;
  if (options.json) {
    std::cout << report_json(result, predicted).dump(2) << "\n";
  } else {
    std::cout << report_text(result, predicted, no_prediction);
  }
  return 0;
}

}  // namespace penstock::cli
