// The command line: one function per command declares its flags, `run` parses and carries out.
// The only file that includes CLI11.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "graph/error.hpp"
#include "pipeline/quantity.hpp"
#include "pipeline/schedule.hpp"

namespace penstock::cli {

namespace {

/// `auto` leaves the value absent.
template <class Number>
void add_auto_number(CLI::App& app, const std::string& flag, std::optional<Number>& value,
                     const std::string& help) {
  app.add_option_function<std::string>(
      flag,
      [flag, &value](const std::string& text) {
        if (text == "auto") return value.reset();
        Number number{};
        if (!CLI::detail::lexical_cast(text, number) || number < 1) {
          throw InputError(flag, fmt::format("`{}` is not a number of 1 or more", text),
                           "Give a number, or `auto`.");
        }
        value = number;
      },
      help);
}

template <class Number>
void add_count(CLI::App& app, const std::string& flag, std::optional<Number>& value,
               const std::string& help) {
  app.add_option(flag, value, help)->check(CLI::Range(Number{1}, Number{1} << 24));
}

std::function<int()> declare_profile(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  app.add_option("JOB.yaml", options->job, "the job")->required();
  app.add_option("--device", options->device, "cpu")->capture_default_str();
  app.add_option("--ranks", options->ranks, "local ranks that will compute at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--top", options->top, "how many of the most expensive operators to print")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("-o,--output", options->output, "the profile to write (JSON)")->required();
  return [options] { return profile(*options); };
}

std::vector<std::string> schedule_names(const std::vector<std::string>& given) {
  if (given == std::vector<std::string>{"auto"}) return {};
  for (const std::string& name : given) find_schedule(name, "--schedule");
  return given;
}

std::function<int()> declare_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  auto memory = std::make_shared<std::string>();
  app.add_option("PROFILE.json", options->profile, "what `penstock profile` wrote")->required();
  app.add_option("--cluster", options->cluster, "the devices and links to plan for (YAML)");
  add_count(app, "--ranks", options->ranks, "pipeline ranks; default: the cluster's, else 2");
  app.add_option("--schedule", options->schedules, "NAME[,NAME] or auto")->delimiter(',');
  add_auto_number(app, "--microbatches", options->microbatches, "N or auto");
  app.add_option("--memory", *memory, "limit per rank, like 16GiB");
  app.add_option("--split", options->split,
                 "split by hand: PATH:beginning|PATH:end[,…]; default: searched")
      ->delimiter(',');
  app.add_flag("--allow-batch-coupling", options->allow_batch_coupling,
               "choose the microbatches even where samples of a batch influence each other");
  app.add_option("-o,--output", options->output, "the plan to write (YAML)")->required();
  return [options, memory] {
    options->schedules = schedule_names(options->schedules);
    if (!memory->empty()) options->memory_bytes = parse_bytes(*memory, "--memory");
    return plan(*options);
  };
}

void declare_study(CLI::App& app, SimulateOptions& options) {
  app.add_option("--program", options.program, "a schedule CSV instead of a plan");
  app.add_option("--schedule", options.schedule, "a schedule by name instead of a plan");
  add_count(app, "--ranks", options.ranks, "pipeline ranks");
  add_count(app, "--stages-per-rank", options.stages_per_rank, "stages per rank; default 1");
  add_count(app, "--microbatches", options.microbatches, "microbatches per step");
  app.add_option("--forward", options.forward, "time of a stage's forward, like 1ms");
  app.add_option("--backward", options.backward, "time of its backward");
  app.add_option("--backward-input", options.backward_input, "of a split backward: for the input");
  app.add_option("--backward-weight", options.backward_weight, "… and for the weight");
  app.add_option("--message", options.message, "bytes of a transfer, like 16MB");
  app.add_option("--bandwidth", options.bandwidth, "of a link, like 25GB/s; default: infinite");
  app.add_option("--latency", options.latency, "of a link, like 10us; default: none");
  app.add_option("--saved", options.saved, "bytes a stage holds per microbatch from F to B (or I)");
  app.add_option("--saved-weight", options.saved_weight, "… and from there to the end of W");
  app.add_option("--memory", options.memory, "limit per rank to compare with");
}

std::function<int()> declare_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  app.add_option("PLAN.yaml", options->plan, "a plan");
  declare_study(app, *options);
  app.add_option("--trace", options->trace, "write the timeline for Perfetto (JSON)");
  app.add_option("--width", options->width, "columns of the drawing; default: the terminal's")
      ->check(CLI::Range(0, 10000));
  app.add_flag("--json", options->json, "print one JSON object");
  return [options] { return simulate(*options); };
}

std::function<int()> declare_execute(CLI::App& app) {
  auto options = std::make_shared<ExecuteOptions>();
  app.add_option("PLAN.yaml", options->plan, "a plan")->required();
  add_count(app, "--steps", options->steps, "training steps; default: the job's");
  app.add_option("--device", options->device, "cpu")->capture_default_str();
  app.add_flag("--forward-only", options->forward_only, "inference: forwards of the plan alone");
  app.add_option("--output", options->output, "with --forward-only: outputs (.safetensors)");
  app.add_option("--trace", options->trace, "write the median step's timeline for Perfetto (JSON)");
  app.add_option("--dump-gradients", options->dump_gradients,
                 "write the first step's gradients (.safetensors)");
  app.add_option("--save", options->save, "write a checkpoint into this folder at the end");
  app.add_option("--save-every", options->save_every, "… and after every N steps")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--resume", options->resume, "go on from a checkpoint's folder");
  app.add_flag("--json", options->json, "print one JSON object");
  return [options] { return execute(*options); };
}

std::function<int()> declare_compare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  app.add_option("PREDICTED.json", options->predicted, "trace of `simulate --trace`")->required();
  app.add_option("ACTUAL.json", options->actual, "trace of `execute --trace`")->required();
  return [options] { return compare(*options); };
}

std::function<int()> declare_show(CLI::App& app) {
  auto options = std::make_shared<ShowOptions>();
  app.add_option("FILE", options->path, "a model (.pt2) or a plan (.yaml)")->required();
  return [options] { return show(*options); };
}

struct Command {
  const char* name;
  const char* description;
  std::function<int()> (*declare)(CLI::App&);
};

constexpr Command commands[] = {
    {"profile", "measure what each operator of a job's model costs here", declare_profile},
    {"plan", "find the best split and schedule for a profile", declare_plan},
    {"simulate", "predict step time, idle time and memory; no device needed", declare_simulate},
    {"execute", "train the plan, one process per rank", declare_execute},
    {"compare", "a predicted and a real timeline, side by side", declare_compare},
    {"show", "what is in a model or a plan", declare_show},
};

/// "Did you mean …?" for a command or flag that does not exist.
std::string suggestion(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  for (const CLI::App* level : {&app, app.get_subcommands().empty() ? &app : app.get_subcommands()[0]}) {
    for (const CLI::Option* option : level->get_options()) known.push_back(option->get_name());
  }
  return did_you_mean(word, known);
}

/// A message with its cure for what CLI11 did not understand.
int refuse(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const bool has_command = !app.get_subcommands().empty();
  std::string where = "penstock";
  if (has_command) where += " " + app.get_subcommands()[0]->get_name();
  std::string cure;
  for (const std::string& word : words) {
    if (cure.empty() && error.get_name() == "ExtrasError") cure = suggestion(app, word);
  }
  if (!has_command && !words.empty()) {
    fmt::print(stderr, "penstock: `{}` is no command\n", words[0]);
    cure = suggestion(app, words[0]);
  } else {
    fmt::print(stderr, "{}: {}\n", where, error.what());
  }
  fmt::print(stderr, "  {}\n", cure.empty() ? "See " + where + " --help." : cure);
  return 2;
}

int carry_out(const std::function<int()>& command) {
  try {
    return command();
  } catch (const InputError& error) {
    fmt::print(stderr, "penstock: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "penstock: {}\n", error.what());
    return 1;
  }
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app("Plans and runs pipeline-parallel training of PyTorch models.", "penstock");
  app.set_version_flag("--version", "penstock " PENSTOCK_VERSION);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<int()>>> declared;
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    declared.emplace_back(sub, command.declare(*sub));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const InputError& error) {
    fmt::print(stderr, "penstock: {}\n", error.what());
    return 2;
  } catch (const CLI::ParseError& error) {
    std::vector<std::string> words = app.remaining(true);
    if (words.empty()) words.assign(argv + 1, argv + argc);
    return refuse(app, error, words);
  }
  for (const auto& [sub, command] : declared) {
    if (sub->parsed()) return carry_out(command);
  }
  return 2;
}

}  // namespace penstock::cli
