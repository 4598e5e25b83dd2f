// The command line: `run` parses what flags.cpp declares, and carries it out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <list>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/command_line/declared.hpp"
#include "cli/command_line/flags.hpp"
#include "cli/workers/launch.hpp"
#include "planner/plan.hpp"

namespace penstock::cli {

namespace {

struct Command {
  const char* name;
  const char* description;
  void (*declare)(Declared&);
};

constexpr Command commands[] = {
    {"profile", "measure what each operator of a job's model costs here", declare_profile},
    {"plan", "find the best split and schedule for a profile", declare_plan},
    {"simulate", "predict step time, idle time and memory; no device needed", declare_simulate},
    {"execute", "train the plan, one process per rank", declare_execute},
    {"serve", "train the plan for a script; the Python module starts it", declare_serve},
    {"compare", "a predicted and a real timeline, side by side", declare_compare},
    {"export", "a plan for torch, TorchTitan, Megatron, DeepSpeed; its weights", declare_export},
    {"show", "what is in a file: model, job, profile, plan, cluster, checkpoint, …", declare_show},
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
  known.emplace_back("help");
  throw InputError("", "there is no command `" + word + "`", cure_for(word, known, app));
}

/// Refuses a flag that the command does not have, for which CLI11 would suggest nothing, and an
/// empty value, for which it would take the next word.
void check_flag(const CLI::App& command, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  if (!flag.starts_with("--") || flag.size() == 2) return;
  if (word.size() == flag.size() + 1) {
    throw InputError(flag, "an empty value", "Give one; is a variable not set?");
  }
  if (command.get_option_no_throw(flag)) return;
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) known.push_back(option->get_name());
  throw InputError(place_of(command), "there is no flag `" + flag + "`",
                   cure_for(flag, known, command));
}

/// Refuses a flag in the place of a value, which CLI11 would take for it.
void check_value(const CLI::App& command, const std::string& flag, const std::string& value) {
  const CLI::Option* option = command.get_option_no_throw(flag);
  if (!flag.starts_with('-') || !option || option->get_items_expected_min() == 0) return;
  if (!value.starts_with("--") || !command.get_option_no_throw(value)) return;
  throw InputError(flag, fmt::format("no value, but another flag: {}", value),
                   "Give one; is a variable not set?");
}

/// The command that the words name, or `app` where they begin with a flag or are none.
CLI::App& check_words(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* command = &app;
  if (!words.empty() && !words[0].starts_with('-')) command = &command_named(app, words[0]);
  for (const std::string& word : words) check_flag(*command, word);
  for (size_t i = 1; i < words.size(); ++i) check_value(*command, words[i - 1], words[i]);
  return *command;
}

/// `help` and `help COMMAND` are `--help` and `COMMAND --help`.
std::vector<std::string> without_help(std::vector<std::string> words) {
  if (words.empty() || words[0] != "help") return words;
  if (words.size() > 2) {
    throw InputError("help", "of one command", "Give one: penstock help COMMAND.");
  }
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

/// The processes of a launcher that run a command together wait for one another.
void check_paths_of(const Declared& command) {
  const auto check = [&] { check_paths(command.app.get_name(), command.given_paths()); };
  if (!command.meets || !command.meets()) return check();
  or_tell_others(find_launcher(process_environment()), check);
}

/// Parses the words, checks what can be checked before the command runs, and runs it.
int run_words(const std::vector<std::string>& words) {
  CLI::App app("Plans and runs pipeline-parallel training of PyTorch models.", "penstock");
  app.set_version_flag("--version", "penstock " PENSTOCK_VERSION);
  app.require_subcommand(1);
  app.footer("Flags and an example of each command: penstock help COMMAND");
  std::list<Declared> declared;
  for (const Command& command : commands) {
    declared.emplace_back(*app.add_subcommand(command.name, command.description));
    command.declare(declared.back());
  }
  CLI::App& named = check_words(app, words);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    const int status = app.exit(success, text, text);
    fmt::print("{}", text.str());
    return status;
  } catch (const CLI::ParseError& error) {
    throw InputError(place_of(named), error.what(), see_help(named));
  }
  for (const Declared& command : declared) {
    if (!command.app.parsed()) continue;
    check_paths_of(command);
    return command.run();
  }
  throw std::logic_error("no command was parsed");
}

/// Shells say so of what SIGINT ended.
constexpr int interrupted_status = 128 + 2;

/// How a command ended; without a message where it has said all itself.
struct Outcome {
  int status = 0;
  std::string message = {};
};

Outcome outcome_of(const std::vector<std::string>& words) try {
  return {run_words(without_help(words))};
} catch (const InputError& error) {
  return {2, error.what()};
} catch (const SearchStopped& stopped) {
  return {interrupted_status, stopped.what()};
} catch (const std::filesystem::filesystem_error& error) {
  const std::string path = error.path1().string();
  return {1, fmt::format("{}{}{}", path, path.empty() ? "" : ": ", error.code().message())};
} catch (const std::exception& error) {
  return {1, error.what()};
}

/// Says why printed output was lost: a full disk, a closed pipe.
Outcome lost_output(const Outcome& outcome, int error) {
  return {outcome.status == 0 ? 1 : outcome.status,
          fmt::format("standard output cannot be written: {}", std::strerror(error))};
}

}  // namespace

int run(int argc, char** argv) {
  Outcome outcome = outcome_of({argv + 1, argv + argc});
  if (std::fflush(stdout) != 0) outcome = lost_output(outcome, errno);
  if (!outcome.message.empty())
    std::fputs(fmt::format("penstock: {}\n", outcome.message).c_str(), stderr);
  return outcome.status;
}

}  // namespace penstock::cli
