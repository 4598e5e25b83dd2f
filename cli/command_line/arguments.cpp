// The command line: `run` parses what flags.cpp declares, and carries it out.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/command_line/flags.hpp"

namespace penstock::cli {

namespace {

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
    {"export", "a plan for torch, TorchTitan, Megatron, DeepSpeed; its weights", declare_export},
    {"show", "what is in a model or a plan", declare_show},
};

std::string place_of(const CLI::App& command) {
  return command.get_parent() ? command.get_name() : "";
}

std::string see_help(const CLI::App& command) {
  return fmt::format("See penstock {}{}--help.", place_of(command),
                     command.get_parent() ? " " : "");
}

/// The suggestion, or where to look.
std::string cure_for(const std::string& word, const std::vector<std::string>& known,
                     const CLI::App& command) {
  const std::string suggestion = did_you_mean(word, known);
  return suggestion.empty() ? see_help(command) : suggestion;
}

/// The command that the first word names. Throws InputError where it is none.
CLI::App& command_named(CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == word) return *command;
    known.push_back(command->get_name());
  }
  throw InputError("", "there is no command `" + word + "`", cure_for(word, known, app));
}

/// Refuses a flag that the command does not have; CLI11 alone would suggest nothing.
void check_flag(const CLI::App& command, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  if (!flag.starts_with("--") || flag.size() == 2 || command.get_option_no_throw(flag)) return;
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) known.push_back(option->get_name());
  throw InputError(place_of(command), "there is no flag `" + flag + "`",
                   cure_for(flag, known, command));
}

/// The command that the words name, or `app` where they begin with a flag or are none.
CLI::App& check_words(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* command = &app;
  if (!words.empty() && !words[0].starts_with('-')) command = &command_named(app, words[0]);
  for (const std::string& word : words) check_flag(*command, word);
  return *command;
}

int report(const std::string& message, int status) {
  fmt::print(stderr, "penstock: {}\n", message);
  return status;
}

}  // namespace

int run(int argc, char** argv) try {
  CLI::App app("Plans and runs pipeline-parallel training of PyTorch models.", "penstock");
  app.set_version_flag("--version", "penstock " PENSTOCK_VERSION);
  app.require_subcommand(1);
  app.footer("Flags and an example of each command: penstock COMMAND --help");
  std::vector<std::pair<CLI::App*, std::function<int()>>> declared;
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    declared.emplace_back(sub, command.declare(*sub));
  }
  CLI::App& named = check_words(app, {argv + 1, argv + argc});
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw InputError(place_of(named), error.what(), see_help(named));
  }
  for (const auto& [sub, command] : declared) {
    if (sub->parsed()) return command();
  }
  throw std::logic_error("no command was parsed");
} catch (const InputError& error) {
  return report(error.what(), 2);
} catch (const std::exception& error) {
  return report(error.what(), 1);
}

}  // namespace penstock::cli
