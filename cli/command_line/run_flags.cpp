// The flags of runs: `execute` and `serve`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/command_line/declared.hpp"
#include "cli/command_line/flags.hpp"
#include "cli/command_line/options.hpp"

namespace penstock::cli {

namespace {

constexpr const char* kStartTimeout = "--start-timeout";
constexpr double kMostStartTimeout_s = 1e6;

double parse_start_timeout(const std::string& text) {
  const double seconds = parse_seconds(text, kStartTimeout);
  if (seconds <= 0 || seconds > kMostStartTimeout_s)
    throw InputError(kStartTimeout, fmt::format("{} is out of range", text),
                     "Give more than 0s and at most 1000000s.");
  return seconds;
}

}  // namespace

void declare_execute(Declared& command) {
  CLI::App& app = command.app;
  auto options = std::make_shared<ExecuteOptions>();
  command.input("PLAN.yaml", options->plan, {FileKind::plan}, "the plan to train")->required();
  add_count(app, "--steps", options->steps,
            "the run's total, also of one that is resumed: in each step all microbatches of one "
            "global batch go through the pipeline and the parameters are updated once; default: "
            "the job's `steps`");
  add_text(app, "--device", options->workers.device, "NAME", "cpu or cuda")->capture_default_str();
  in_range(
      app.add_option("--ranks-per-device", options->workers.ranks_per_device,
                     "of cuda: so many local ranks share a GPU, to try a plan; never to time it"),
      1, 64);
  add_transport(app, options->workers);
  add_text(app, "--cuda-graphs", options->cuda_graphs, "WHEN",
           "of cuda: auto (replay a step's compute where that is faster), on, off; default: auto");
  app.add_flag("--forward-only", options->forward_only,
               "inference: forwards of the plan alone, in evaluation mode");
  command.output("--output", options->output, "with --forward-only: outputs (.safetensors)");
  command.output("--trace", options->trace,
                 "write the median step's timeline for Perfetto and `compare` (JSON)");
  command.output("--metrics", options->metrics,
                 "write loss, norm, learning rate, times, memory and bubble, a line a step (JSON); "
                 "with --resume after the lines of the steps that were done");
  command.output("--tensorboard", options->tensorboard,
                 "write the same as an event file for TensorBoard", PathUse::output_folder);
  command.output("--dump-gradients", options->dump_gradients,
                 "write the first step's gradients (.safetensors)");
  command.output("--save", options->save, "write a checkpoint DIR/step-N at the end",
                 PathUse::output_folder);
  add_count(app, "--save-every", options->save_every, "and after every N steps");
  add_count(app, "--keep", options->keep,
            "so many of the latest checkpoints; earlier ones are removed once a new one is in "
            "place; default: 3");
  command.input(
      "--resume", options->resume, {FileKind::checkpoint, FileKind::folder},
      "go on from a checkpoint, or from the latest intact one in DIR, which may have none yet "
      "where it is --save's too; the split may be another; with --forward-only its weights are "
      "used");
  add_text(app, "--survive", options->survive, "HOW",
           "what a killed rank costs: off (the run), local (the step in progress: ranks keep "
           "snapshots in memory, twice their state, and are replaced), peers (local, and under a "
           "launcher processes keep copies of each other's snapshots, twice as much again: a lost "
           "one costs no more where there are --spares); "
           "auto: local where there is memory for it")
      ->capture_default_str();
  add_count(app, "--spares", options->spares,
            "with --survive: the last N processes that the launcher starts wait, and take the "
            "ranks of those that are lost with their node");
  app.add_flag(
      "--shrink", options->shrink,
      "with --survive and --save: where processes are lost and no spare is left, plan anew "
      "for the ranks that are left, from the plan's profile, and go on from the latest "
      "checkpoint; losses are the same up to rounding");
  command.input("--weights", options->weights, {FileKind::safetensors, FileKind::folder},
                "start from these weights: a .safetensors, as `export --format state-dict` writes "
                "it, a Hugging Face index of shards, or a folder with either");
  app.add_option_function<std::string>(
         kStartTimeout,
         [options](const std::string& text) {
           options->start_timeout_s = parse_start_timeout(text);
         },
         "for all ranks to start, where a launcher starts them, and for GPUs to connect; default: "
         "600s")
      ->type_name("TIME");
  app.add_flag("--json", options->json, "print one JSON object");
  app.footer("Example:\n  penstock execute plan.yaml --steps 20 --trace actual.json");
  command.meets = [] { return true; };
  command.run = [options] { return execute(*options); };
}

void declare_serve(Declared& command) {
  CLI::App& app = command.app;
  auto options = std::make_shared<ServeOptions>();
  ExecuteOptions& run = options->run;
  run.fed = true;
  // Its paths are checked by the command, which tells the script.
  add_text(app, "PLAN.yaml", run.plan, "PATH", "the plan to train")->required();
  add_text(app, "--device", run.workers.device, "NAME", "cpu or cuda")->capture_default_str();
  in_range(app.add_option("--ranks-per-device", run.workers.ranks_per_device,
                          "of cuda: so many local ranks share a GPU"),
           1, 64);
  add_transport(app, run.workers);
  add_text(app, "--save", run.save, "DIR", "where checkpoints will be written");
  add_text(app, "--resume", run.resume, "DIR", "go on from a checkpoint, or the latest in DIR");
  add_text(app, "--survive", run.survive, "HOW", "as execute's")->capture_default_str();
  app.add_option("--batches", options->batches, "the memory that batches lie in")
      ->type_name("DESCRIPTOR")
      ->required();
  app.add_option("--results", options->results, "the memory that results are written to")
      ->type_name("DESCRIPTOR")
      ->required();
  in_range(app.add_option("--patience", options->patience_s,
                          "seconds without a request until a warning names the script")
               ->capture_default_str(),
           1, 1'000'000);
  app.footer(
      "It reads requests from standard input and writes events to standard output, as "
      "cli/serve/script.hpp says.");
  command.run = [options] { return serve(*options); };
}

}  // namespace penstock::cli
