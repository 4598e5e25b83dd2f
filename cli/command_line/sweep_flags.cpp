#include "cli/command_line/sweep_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/command_line/declared.hpp"

namespace penstock::cli {

namespace {

const std::vector<std::string> of_output = {"--sweep", "--json", "--html", "--verbose", "--output"};

}  // namespace

void declare_sweep(Declared& command, PlanOptions& options, CLI::Option& output) {
  CLI::Option* sweep =
      command.app
          .add_option_function<std::vector<std::string>>(
              "--sweep",
              [&](const std::vector<std::string>& given) {
                options.sweep = given;
                output.required(false);
              },
              "print a table, with the best plan for each value of ranks, memory, global_batch, "
              "device (files, of an estimate), links.bandwidth (or just bandwidth), "
              "links.latency, network.bandwidth or network.latency; may be repeated: every "
              "combination")
          ->type_name("KEY=V1,V2,…")
          ->allow_extra_args(false);
  command.app.add_flag("--json", options.json, "of a sweep: print one JSON object")->needs(sweep);
}

std::vector<std::string> given_words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || !name.starts_with("--")) continue;
    if (std::ranges::find(of_output, name) != of_output.end()) continue;
    words.push_back(name);
    const bool takes_value = option->get_items_expected_max() > 0;
    if (takes_value) words.push_back(fmt::format("{}", fmt::join(option->results(), ",")));
  }
  return words;
}

}  // namespace penstock::cli
