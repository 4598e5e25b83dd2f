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
  for (const std::string& path : {options.output, options.dump_gradients, options.trace}) {
    const auto folder = std::filesystem::absolute(path).parent_path();
    if (!path.empty() && !std::filesystem::is_directory(folder)) {
      throw InputError(path, fmt::format("{} is not a folder", folder.string()),
                       "Make it, or write elsewhere.");
    }
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

ExecuteTask make_task(const ExecuteOptions& options, const Plan& plan) {
  ExecuteTask task;
  task.plan = std::filesystem::absolute(options.plan).string();
  task.plan_sha256 = sha256_of_file(options.plan);
  task.steps = options.steps.value_or(options.forward_only ? 1 : plan.job.steps);
  task.forward_only = options.forward_only;
  task.timeline = !options.trace.empty();
  const auto absolute = [](const std::string& path) {
    return path.empty() ? path : std::filesystem::absolute(path).string();
  };
  task.output = absolute(options.output);
  task.dump_gradients = absolute(options.dump_gradients);
  return task;
}

/// Takes in what rank 0 reports.
class Listener {
 public:
  Listener(const Plan& plan, int64_t steps, std::string trace)
      : progress_(plan, steps), trace_(std::move(trace)) {}

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
  void finish() { progress_.finish(); }
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

  ProgressLine progress_;
  std::string trace_;
  ExecuteResult result_;
};

}  // namespace

int execute(const ExecuteOptions& options) {
  const Checked checked = check_inputs(options);
  const std::optional<Launcher> launcher = find_launcher();
  const ExecuteTask task = make_task(options, checked.plan);
  std::string no_prediction;
  const auto predicted = predict(checked.plan, checked.graph, checked.slicing, checked.program,
                                 no_prediction);
  const int pipeline_ranks = checked.plan.ranks();
  const int ranks = pipeline_ranks * static_cast<int>(checked.plan.data_parallel);
  Listener listener(checked.plan, task.steps, options.trace);
  Workers workers(make_tasks(launcher, ranks, "execute", to_json(task)),
                  [&](int rank, int position) {
                    return to_string(checked.program.ranks[rank % pipeline_ranks].at(position));
                  });
  const auto failure = workers.run([&](size_t, const nlohmann::json& event) { listener.take(event); });
  listener.finish();
  if (failure) {
    fmt::print(stderr, "penstock: {}\n", failure->message);
    return failure->status;
  }
  if (launcher && launcher->rank != 0) return 0;
  if (options.json) {
    std::cout << report_json(listener.result(), predicted).dump(2) << "\n";
  } else {
    std::cout << report_text(listener.result(), predicted, no_prediction);
  }
  return 0;
}

}  // namespace penstock::cli
