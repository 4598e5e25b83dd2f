#include "cli/command_line/flags.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/command_line/declared.hpp"
#include "cli/command_line/options.hpp"
#include "cli/command_line/sweep_flags.hpp"
#include "pipeline/program/schedule.hpp"
#include "pipeline/sharding/sharding_keys.hpp"

namespace penstock::cli {
namespace {

void add_graphs(CLI::App& app, std::string& when) {
  add_text(app, "--cuda-graphs", when, "WHEN",
           "of GPUs: auto (steps are replayed where the profile found that faster), on, off; "
           "default: auto");
}

std::vector<std::string> schedule_names(const std::vector<std::string>& given) {
  if (given == std::vector<std::string>{"auto"}) return {};
  for (const std::string& name : given) check_schedule(name, "--schedule");
  return given;
}

void declare_study(Declared& command, SimulateOptions& options) {
  CLI::App& app = command.app;
  const auto add = [&](const char* flag, std::string& value, const char* type, const char* help) {
    add_text(app, flag, value, type, help);
  };
  command.input("--program", options.program, {FileKind::program},
                "a program (CSV) instead of a plan");
  add("--schedule", options.schedule, "NAME", "a schedule instead of a plan, with the flags below");
  add_count(app, "--ranks", options.ranks, "pipeline ranks");
  add_count(app, "--stages-per-rank", options.stages_per_rank, "stages per rank; default 1");
  add_count(app, "--microbatches", options.microbatches, "microbatches per step");
  add("--forward", options.forward, "TIME", "of a stage, per microbatch, like 1ms");
  add("--backward", options.backward, "TIME", "whole backward of a stage");
  add("--backward-input", options.backward_input, "TIME", "or its halves: for the input");
  add("--backward-weight", options.backward_weight, "TIME", "and for the weight");
  add("--message", options.message, "BYTES", "that a stage sends per microbatch, like 16MB");
  add("--bandwidth", options.bandwidth, "RATE", "of a link, like 25GB/s; default: no limit");
  add("--latency", options.latency, "TIME", "of a link, like 10us; default: none");
  add("--saved", options.saved, "BYTES", "a stage holds per microbatch from F to B (or I)");
  add("--saved-weight", options.saved_weight, "BYTES", "and from there to the end of W");
}

}  // namespace

void declare_profile(Declared& command) {
  CLI::App& app = command.app;
  auto options = std::make_shared<ProfileOptions>();
  command.input("JOB.yaml", options->job, {FileKind::job}, "the job");
  add_text(app, "--device", options->workers.device, "NAME",
           "cpu, cuda, or estimate: no device is needed")
      ->capture_default_str();
  command.input("--spec", options->spec, {FileKind::device},
                "of an estimate: the device's figures (YAML)");
  command.input("--fit", options->fit, {FileKind::profile},
                "of an estimate: a profile measured on that device, which tells its efficiency");
  in_range(app.add_option("--ranks", options->ranks,
                          "local ranks that will compute at the same time; default: 2, or 1 where "
                          "there is one GPU"),
           1, 1024);
  in_range(app.add_option("--ranks-per-device", options->workers.ranks_per_device,
                          "of cuda: so many of them share a GPU, to try; never to time it"),
           1, 64);
  add_transport(app, options->workers);
  in_range(
      app.add_option("--tensor-parallel", options->tensor_parallel,
                     "also of what the ranks of tensor groups of so many parts run (2,4,8), each "
                     "measured as the model is, with as much time"),
      2, max_tensor_parallel)
      ->delimiter(',');
  command.input("--sharding", options->sharding, {FileKind::plan},
                "of these groups: a plan whose `sharding` they have; default: what is cheapest");
  app.add_flag("--quick", options->quick,
               "for a first look: fewer microbatch sizes, each measured less often; the profile "
               "and what is planned from it say so");
  app.add_option_function<std::string>(
         "--budget",
         [options](const std::string& text) {
           options->budget_s = parse_seconds(text, "--budget");
         },
         "how long to measure, about: the smallest microbatch sizes are measured in any case, "
         "others and repetitions while there is time; default: 30s, with --quick 5s")
      ->type_name("TIME");
  in_range(
      app.add_option("--top", options->top, "how many of the most expensive operators to print"), 0,
      1 << 20);
  app.add_flag("--verbose", options->verbose, "also the ten most expensive operators");
  app.add_flag(
      "--link", options->link,
      "measure only the link between ranks 0 and 1, here or where torchrun, srun or mpirun "
      "started them, and write a cluster (YAML)");
  command.output("-o,--output", options->output, "the profile to write (JSON)")->required();
  app.footer(
      "Measures what the job's model costs, operator by operator, for each size of a microbatch "
      "(a part of the job's global batch) that may be planned; nothing is trained, and the job's "
      "`steps` do not matter.\n"
      "Examples:\n  penstock profile configs/jobs/transformer.yaml -o profile.json\n"
      "  penstock profile configs/jobs/gpt3.yaml --device estimate "
      "--spec configs/devices/h100.yaml -o gpt3.json\n"
      "  srun --nodes 2 --ntasks-per-node 1 penstock profile --link -o cluster.yaml");
  command.meets = [options] { return options->link; };
  command.run = [options] { return profile(*options); };
}

void declare_plan(Declared& command) {
  CLI::App& app = command.app;
  auto options = std::make_shared<PlanOptions>();
  auto memory = std::make_shared<std::string>(), time = std::make_shared<std::string>();
  command
      .input("PROFILE.json", options->profile, {FileKind::profile, FileKind::layers},
             "what `penstock profile` wrote, or a table of layers (YAML)")
      ->required();
  command.input("--cluster", options->cluster, {FileKind::cluster},
                "the devices and links to plan for (YAML)");
  add_count(app, "--ranks", options->ranks,
            "ranks in all, at most; default: the cluster's, else 2");
  app.add_option("--schedule", options->schedules, "NAME[,NAME] or auto")
      ->delimiter(',')
      ->type_name("NAME");
  add_auto_number(app, "--microbatches", options->microbatches, "of one replica: N or auto");
  add_auto_number(app, "--stages-per-rank", options->stages_per_rank, "N or auto");
  add_auto_number(app, "--data-parallel", options->data_parallel, "replicas: N or auto");
  add_text(app, "--tensor-parallel", options->tensor_parallel, "N",
           "ranks that share each operator: N, or auto (as many as the profile has costs of, "
           "within a node); default: auto with --cluster, else 1");
  add_text(app, "--memory", *memory, "BYTES", "limit per rank, like 16GiB");
  add_text(app, "--survive", options->survive, "HOW",
           "with local or peers, leave room for what `execute --survive` keeps in memory")
      ->capture_default_str();
  add_text(app, "--objective", options->objective, "NAME",
           "throughput, memory (least on the fullest rank) or cost (device seconds)")
      ->capture_default_str();
  app.add_option("--split", options->split,
                 "split by hand: PATH:beginning|PATH:end[,…], or pipe_split where the model calls "
                 "it; default: searched")
      ->delimiter(',')
      ->type_name("POINT");
  add_text(app, "--shared-parameters", options->shared_parameters, "WAY",
           "of several ranks: replicate (each updates a copy), transmit (the first one updates it "
           "and sends its value) or auto")
      ->capture_default_str();
  add_text(app, "--optimizer-state", options->optimizer_state, "WAY",
           "of replicas: replicated (each has all of it), sharded (each has an equal part: ZeRO-1) "
           "or auto; default: auto with --cluster, else replicated");
  add_graphs(app, options->cuda_graphs);
  app.add_option("--whole-modules", options->whole_modules,
                 "modules that no stage divides, like layers.* (`*`: one name between dots)")
      ->delimiter(',')
      ->type_name("PATTERN");
  app.add_flag("--forward-only", options->forward_only,
               "for inference: forwards alone, in evaluation mode");
  app.add_flag("--fastest", options->fastest,
               "the shortest step, also where a plan with fewer ranks or stages, a plainer "
               "schedule or fewer modules divided is slower by no more than the profile can tell");
  app.add_flag("--contiguous", options->contiguous,
               "stages that follow one another in the model, as other tools need them");
  app.add_flag("--allow-batch-coupling", options->allow_batch_coupling,
               "choose the microbatches even where samples of a batch influence each other");
  app.add_flag("--verbose", options->verbose,
               "also what was searched, every stage, the devices and the bounds");
  app.add_flag("--explain", options->explain,
               "also why the best alternatives lost, and what more memory or bandwidth would give");
  add_text(app, "--time", *time, "TIME",
           "how long to search, about: a limit of effort, so that the plan is the same on any "
           "machine; default: 8s");
  command.output("--html", options->html,
                 "also write a page with the plan's timeline, or with the rows of a sweep");
  declare_sweep(
      command, *options,
      *command.output("-o,--output", options->output, "the plan to write (YAML)")->required());
  app.footer(
      "Examples:\n  penstock plan profile.json --ranks 2 -o plan.yaml\n"
      "  penstock plan profile.json --sweep ranks=2,4,8 --sweep memory=16GiB,32GiB\n"
      "  penstock plan profile.json --split layers.3:end --schedule gpipe -o plan.yaml");
  command.run = [options, memory, time, &app] {
    options->schedules = schedule_names(options->schedules);
    if (!memory->empty()) options->memory_bytes = parse_bytes(*memory, "--memory");
    if (!time->empty()) options->search_s = parse_seconds(*time, "--time");
    options->words = given_words(app);
    return plan(*options);
  };
}

void declare_simulate(Declared& command) {
  CLI::App& app = command.app;
  auto options = std::make_shared<SimulateOptions>();
  command.input("PLAN.yaml", options->plan, {FileKind::plan}, "the plan to simulate");
  command.input("--cluster", options->cluster, {FileKind::cluster},
                "the devices and links to simulate on (YAML), instead of the plan's");
  app.add_option("--set", options->set,
                 "of a plan, instead of what its files say: schedule, microbatches, "
                 "optimizer_state, speed (of compute, like 1.1), links.bandwidth, links.latency, "
                 "network.bandwidth or network.latency (between nodes); may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_count(app, "--samples", options->samples,
            "of a plan: also this many steps with times drawn from its profile; prints their mean, "
            "median, 5th and 95th percentile");
  in_range(app.add_option("--seed", options->seed, "of these draws; default: 0"), int64_t{0},
           int64_t{1} << 53);
  command.input("--measured", options->measured, {FileKind::trace},
                "of a plan: F, B, I and W take as long as in this trace of `execute`; what is then "
                "left of the error is of waiting, transfers and sums");
  app.add_flag("--forward-only", options->forward_only,
               "of a plan: inference with it, forwards alone in evaluation mode");
  declare_study(command, *options);
  add_text(app, "--memory", options->memory, "BYTES", "limit per rank to compare with");
  add_text(app, "--survive", options->survive, "HOW",
           "of a plan: with local or peers, count what `execute --survive` keeps in memory")
      ->capture_default_str();
  add_graphs(app, options->cuda_graphs);
  command.output("--trace", options->trace, "write the timeline for Perfetto and `compare` (JSON)");
  command.output("--html", options->html, "write one page: timeline, memory, critical path");
  in_range(
      app.add_option("--width", options->width, "columns of the drawing; default: the terminal's"),
      0, 10000);
  app.add_flag("--verbose", options->verbose, "every rank, where there are more than 16");
  app.add_flag("--json", options->json, "print one JSON object");
  app.footer(
      "Examples:\n  penstock simulate plan.yaml --trace predicted.json\n"
      "  penstock simulate plan.yaml --cluster cluster.yaml --set links.bandwidth=10GB/s\n"
      "  penstock simulate --schedule 1f1b --ranks 4 --microbatches 8 --forward 1ms "
      "--backward 2ms");
  command.run = [options] { return simulate(*options); };
}

void declare_compare(Declared& command) {
  auto options = std::make_shared<CompareOptions>();
  command.input("PREDICTED.json", options->predicted, {FileKind::trace}, "from `simulate --trace`")
      ->required();
  command.input("ACTUAL.json", options->actual, {FileKind::trace}, "from `execute --trace`")
      ->required();
  command.output("--html", options->html,
                 "write one page: both timelines rank by rank, errors by cause");
  command.app.add_flag("--json", options->json, "print one JSON object");
  command.app.footer(
      "Example:\n  penstock compare predicted.json actual.json --html compared.html");
  command.run = [options] { return compare(*options); };
}

void declare_export(Declared& command) {
  CLI::App& app = command.app;
  auto options = std::make_shared<ExportOptions>();
  command.input("PLAN.yaml", options->plan, {FileKind::plan}, "the plan to export")->required();
  add_text(app, "--format", options->format, "NAME", "one of those below")->required();
  add_text(app, "--lowered", options->lowered, "VERSION",
           "torch-csv with transfers, in the form of that torch; default: compute alone");
  command.input("--checkpoint", options->checkpoint, {FileKind::checkpoint, FileKind::folder},
                "state-dict of what `execute --save DIR` wrote; default: the weights as exported");
  command.output("-o,--output", options->output, "the file to write")->required();
  app.footer("Formats:\n" + export_formats() +
             "Example:\n  penstock export plan.yaml --format torch-csv -o schedule.csv");
  command.run = [options] { return export_plan(*options); };
}

void declare_show(Declared& command) {
  auto options = std::make_shared<ShowOptions>();
  command
      .input("FILE", options->path, shown_kinds(),
             "a model, job, profile, table of layers, plan, cluster, device, checkpoint (DIR), "
             "trace, program or "
             ".safetensors")
      ->required();
  command.input("--profile", options->profile, {FileKind::profile},
                "of a model: also the times that were measured");
  command.app.add_flag("--layers", options->layers,
                       "of a profile: print it as a table of layers (YAML)");
  command.app.add_option("--stage", options->stage,
                         "of a plan: print one stage's inputs, parameters, operators and outputs, "
                         "as torch.fx prints a GraphModule");
  command.app.add_flag("--verbose", options->verbose,
                       "every row of long tables; of a profile also its most expensive operators");
  command.run = [options] { return show(*options); };
}

}  // namespace penstock::cli
