// penstock execute: trains a plan, or runs its forwards, on workers of this machine; under
// torchrun, srun or mpirun it is one of the ranks. Everything that can be checked without LibTorch
// is checked before a worker starts.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <iostream>

#include "base/error.hpp"
#include "cli/metrics/metrics.hpp"
#include "cli/metrics/step_record.hpp"
#include "cli/prepared_run.hpp"
#include "cli/report/ending.hpp"
#include "cli/report/execute_report.hpp"
#include "cli/report/step_progress.hpp"
#include "cli/report/terminal.hpp"
#include "cli/workers/launch.hpp"
#include "cli/workers/onednn_isa.hpp"
#include "cli/workers/workers.hpp"
#include "pipeline/checkpoint/saved.hpp"
#include "pipeline/program/timeline.hpp"

namespace penstock::cli {

namespace {

/// The files that rank 0 writes, which has done so many steps.
Metrics make_metrics(const ExecuteOptions& options, int64_t done) {
  std::vector<std::unique_ptr<MetricsFile>> files;
  if (!options.metrics.empty()) files.push_back(make_json_lines(options.metrics, done));
  if (!options.tensorboard.empty()) files.push_back(make_tensorboard(options.tensorboard, done));
  return Metrics(std::move(files));
}

/// Takes in what rank 0 reports.
class Listener {
 public:
  /// `metrics`: where there are none yet, a spare makes them once it is rank 0.
  Listener(const Plan& plan, const ExecuteTask& task, const ExecuteOptions& options,
           std::optional<Metrics> metrics)
      : plan_(plan),
        options_(options),
        progress_(task.first_step, task.steps),
        metrics_(std::move(metrics)) {}

  void take(const nlohmann::json& event) {
    const std::string name = event.at("event");
    if (name == "step") step(event);
    if (name == "validation") validation(event);
    if (name == "summary") summary(event);
    if (name == "saved") saved_ = event.at("path").get<std::string>();
    if (name == "warning") progress_.message(event.at("message").get<std::string>());
    if (name == "timeline") trace(event);
  }
  /// Another plan: the report is of the steps with it.
  void begin_anew() {
    result_ = {};
    next_step_ = 0;
  }
  const ExecuteResult& result() const { return result_; }
  /// The last checkpoint, "" before the first.
  const std::string& saved() const { return saved_; }
  /// Why there is no trace, though there was to be one; or "".
  const std::string& untraced() const { return untraced_; }

 private:
  /// A step that ranks did again after a failure gave the same before; with another plan it counts,
  /// but people were told of it.
  void step(const nlohmann::json& event) {
    const int64_t step = event.at("step");
    if (step < next_step_) return;
    next_step_ = step + 1;
    const StepRecord record = step_record(event, plan_);
    result_.step_s.push_back(record.step_s);
    if (record.loss) result_.losses.push_back(*record.loss);
    if (options_.json) result_.microbatch_losses.push_back(record.microbatch_losses);
    if (record.gradient_norm) result_.gradient_norms.push_back(*record.gradient_norm);
    if (step < untold_step_) return;
    untold_step_ = step + 1;
    if (!metrics_) metrics_ = make_metrics(options_, step);
    progress_.show(record);
    write(metrics_of(record));
  }

  void write(const nlohmann::ordered_json& line) {
    for (const std::string& message : metrics_->write(line)) progress_.message(message);
  }

  void validation(const nlohmann::json& event) {
    const nlohmann::json& loss = event.at("loss");
    const Validated validated{step_number(event.at("step").get<int64_t>()),
                              loss.is_null() ? std::nan("") : loss.get<double>()};
    const auto& before = result_.validations;
    if (!before.empty() && before.back().step >= validated.step) return;  // again, as a step
    result_.validations.push_back(validated);
    if (validated.step <= told_validation_) return;
    told_validation_ = validated.step;
    progress_.show(validated);
    write({{"step", validated.step}, {"validation_loss", loss}});
  }

  /// Where it cannot be written what has been trained is not lost.
  void trace(const nlohmann::json& event) try {
    write_file(options_.trace,
               to_chrome_trace({fmt::format("executed, step {}", step_number(event.at("step"))),
                                parse_timeline(event.at("events")),
                                {},
                                true}));
  } catch (const InputError& error) {
    untraced_ = error.what();
  }

  void summary(const nlohmann::json& event) {
    for (auto* const bytes : {&result_.peak_memory_bytes, &result_.peak_reserved_bytes})
      bytes->clear();
    result_.compute_s.clear();
    result_.cuda_graphs.clear();
    for (const auto& rank : event.at("ranks")) {
      result_.peak_memory_bytes.push_back(rank.at("peak_memory_bytes").get<int64_t>());
      result_.compute_s.push_back(rank.at("compute_s").get<double>());
      if (rank.contains("cuda_graphs")) {
        result_.cuda_graphs.push_back(parse_graphs_used(rank.at("cuda_graphs")));
        result_.peak_reserved_bytes.push_back(rank.at("peak_reserved_bytes").get<int64_t>());
      }
    }
  }

  const Plan& plan_;
  const ExecuteOptions& options_;
  StepProgress progress_;
  std::optional<Metrics> metrics_;
  ExecuteResult result_;
  std::string saved_, untraced_;
  int64_t next_step_ = 0;  // behind those of the result, which begins anew with a plan …
  int64_t untold_step_ = 0, told_validation_ = -1;  // … as what people are told does not
};

}  // namespace

namespace {

/// The commands that take what the run left: its trace, its record, its checkpoint.
std::vector<std::string> next(const ExecuteOptions& options, bool steps_left) {
  std::vector<std::string> commands;
  const std::string plan = in_shell(options.plan);
  if (!options.trace.empty()) {
    commands.push_back(fmt::format("penstock simulate {} --trace predicted.json", plan));
    commands.push_back(fmt::format("penstock compare predicted.json {}", in_shell(options.trace)));
  }
  if (!options.tensorboard.empty())
    commands.push_back("tensorboard --logdir " + in_shell(options.tensorboard));
  if (!options.save.empty()) {
    const std::string saved = in_shell(options.save);
    if (steps_left)
      commands.push_back(
          fmt::format("penstock execute {} --resume {} --save {}", plan, saved, saved));
    commands.push_back(
        fmt::format("penstock export {} --format state-dict --checkpoint {} -o weights.safetensors",
                    plan, saved));
  }
  return commands;
}

/// Ranks of all replicas have the same state, unless they share it out.
int alike_ranks(const Plan& plan) {
  if (plan.optimizer_state == OptimizerState::sharded) return 0;
  return plan.all_ranks() / static_cast<int>(plan.data_parallel);
}

/// The newest intact checkpoint that this run has made, or begun with.
std::optional<SavedState> last_saved(const ExecuteTask& task) try {
  if (task.save.empty()) return std::nullopt;
  const auto found = find_intact(task.save);
  if (found && found->manifest.step > task.first_step)
    return SavedState{found->manifest.step, found->path.string()};
  if (task.resume.empty()) return std::nullopt;
  return SavedState{task.first_step, task.resume};
} catch (const InputError&) {  // none is intact
  return std::nullopt;
}

/// Has checkpoints of a run that survives be written from snapshots, unless its ranks write them.
void save_snapshots(const PreparedRun& run, WorkersOptions& options) {
  options.save = {};
  options.save_part = {};
  if (!run.survival.survives || run.task.save.empty()) return;
  const CheckedRun& checked = run.checked;
  if (has_parts(checked.plan)) return;
  const SavedRun saved{checked.plan, checked.graph, checked.slicing, checked.program.rank_of_stage};
  const auto saving = [&task = run.task](int64_t step) {
    return Saving{task.save, step, task.keep, nullptr};
  };
  options.save = [=](int64_t step, const RankSnapshots& snapshots, const OtherParts& others,
                     const std::stop_token& stop) {
    write_checkpoint(saving(step), saved, snapshots, others, stop);
  };
  options.save_part = [=](int64_t step, const RankSnapshots& snapshots,
                          const std::stop_token& stop) {
    return write_part(saving(step), saved, snapshots, stop);
  };
}

/// Has a run that is to shrink go on with a smaller plan, which is written beside its checkpoints.
void shrink(PreparedRun& run, Listener& listener, WorkersOptions& options) {
  if (!run.planned_from) return;
  options.plan_anew = [&run](const std::set<int>& alive, const std::function<bool()>& stop) {
    return write_smaller_plan(run, alive, stop);
  };
  options.adopt = [&](const std::string& plan, WorkerTask& task, WorkersOptions& of_run) {
    adopt(plan, run, task);
    listener.begin_anew();
    of_run.parts = static_cast<int>(run.checked.plan.tensor_parallel);
    of_run.alike = alike_ranks(run.checked.plan);
    save_snapshots(run, of_run);
  };
}

void tell_nothing_left(const ExecuteOptions& options, const ExecuteTask& task) {
  fmt::print(stderr, "{} has done all {} steps: nothing is left to do\n", task.resume,
             task.first_step);
  if (options.json)
    fmt::print(R"({{"losses": [], "step_s": [], "steps": 0}})"
               "\n");
}

}  // namespace

int execute(const ExecuteOptions& options) {
  const std::optional<Launcher> launcher = find_launcher(process_environment());
  std::optional<PreparedRun> run;
  std::optional<Metrics> metrics;  // of rank 0, where it is one of these workers
  or_tell_others(launcher, [&] {
    run = prepare_run(options, launcher);
    if (has_rank_0(run->workers)) metrics = make_metrics(options, run->task.first_step);
  });
  const CheckedRun& checked = run->checked;
  const bool tells = has_rank_0(run->workers);
  for (const std::string& note : run->notes)
    if (tells) fmt::print(stderr, "{}\n", note);
  if (run->task.steps == 0) {
    if (tells) tell_nothing_left(options, run->task);
    return 0;
  }
  if (options.workers.device == "cpu") {
    limit_onednn(checked.graph, launcher && launcher->local_rank != 0);
  }
  ExecuteReport report;
  if (checked.plan.job.forward_only) report.samples = checked.plan.job.global_batch;
  std::optional<Listener> listener(std::in_place, checked.plan, run->task, options,
                                   std::move(metrics));
  const bool saves = !run->task.save.empty();
  WorkersOptions how{.on_signal = saves ? OnSignal::finish_step : OnSignal::end,
                     .survive = run->survival.survives,
                     .peers = run->survival.peers,
                     .end = run->task.first_step + run->task.steps,
                     .program = &run->executed,
                     .parts = static_cast<int>(checked.plan.tensor_parallel),
                     .alike = alike_ranks(checked.plan),
                     .find_saved = [&] { return last_saved(run->task); }};
  save_snapshots(*run, how);
  shrink(*run, *listener, how);
  Workers workers(
      run->workers,
      [&](int rank, int position) {
        return to_string(run->executed.ranks[checked.plan.place_of(rank).rank].at(position));
      },
      std::move(how));
  const auto failure =
      workers.run([&](size_t, const nlohmann::json& event) { listener->take(event); });
  report.predicted = std::move(run->predicted);
  report.why_not_predicted = run->why_not_predicted;
  report.result = listener->result();
  const std::string saved = listener->saved(), untraced = listener->untraced();
  listener.reset();  // its line is gone from the terminal
  if (failure) {
    if (!failure->told) fmt::print(stderr, "penstock: {}\n", failure->message);
    if (!saved.empty()) fmt::print(stderr, "  The last checkpoint is {}.\n", saved);
    return failure->status;
  }
  if (!workers.have_rank_0()) return 0;
  if (report.predicted)
    report.at_pace = step_at_pace(*report.predicted, checked.program, report.result.compute_s);
  if (options.json) {
    std::cout << report_json(report).dump(2) << "\n";
  } else {
    std::cout << report_text(report, terminal_columns())
              << ending({untraced.empty() ? options.trace : "", options.metrics,
                         options.tensorboard, options.save, options.output, options.dump_gradients},
                        next(run->options,
                             run->task.first_step + run->task.steps < checked.plan.job.steps));
  }
  if (untraced.empty()) return 0;
  fmt::print(stderr, "penstock: {}\n", untraced);
  return 2;
}

}  // namespace penstock::cli
