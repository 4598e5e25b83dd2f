// penstock profile: starts the workers that measure, shows how far they are, and prints what they
// found; without a device it estimates instead (estimate.cpp). What is measured so far lies beside
// the output as PROFILE.json.partial until all is done.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <variant>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/output_file.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/estimate.hpp"
#include "cli/link.hpp"
#include "cli/report/ending.hpp"
#include "cli/report/profile_report.hpp"
#include "cli/report/progress_line.hpp"
#include "cli/report/terminal.hpp"
#include "cli/workers/launch.hpp"
#include "cli/workers/onednn_isa.hpp"
#include "cli/workers/worker_options.hpp"
#include "cli/workers/workers.hpp"
#include "graph/pt2/initial_values.hpp"
#include "pipeline/job/job.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::cli {

namespace {

namespace fs = std::filesystem;

void check_flags(const ProfileOptions& options) {
  const bool measures = !options.link && options.workers.device != "estimate";
  if (!measures && (options.quick || options.budget_s)) {
    throw InputError(options.quick ? "--quick" : "--budget",
                     "is for measuring a job's operators, which this does not", "Leave it out.");
  }
  if (!options.sharding.empty() && options.tensor_parallel.empty())
    throw InputError("--sharding", "is of tensor groups, of which none are asked for",
                     "Add --tensor-parallel, the number of parts.");
  if (options.link && !options.tensor_parallel.empty())
    throw InputError("--tensor-parallel", "is of a job, and --link measures a link",
                     "Leave it out.");
  if (options.workers.device == "estimate") {
    if (options.workers.ranks_per_device == 1) return;
    throw InputError("--ranks-per-device", "an estimate is of one rank", "Leave it out.");
  }
  check_workers(options.workers);
  for (const auto& [flag, value] : {std::pair{"--spec", &options.spec}, {"--fit", &options.fit}}) {
    if (value->empty()) continue;
    throw InputError(flag, "belongs to estimates, and this profile is measured",
                     "Leave it out, or add --device estimate.");
  }
}

/// A failure, or how many ranks measure: two share a link, for which there must be GPUs enough.
std::variant<int, WorkersFailure> count_ranks(const ProfileOptions& options) {
  if (options.ranks) return *options.ranks;
  if (options.workers.device == "cpu") return 2;
  Workers worker(with_options(make_tasks({.rank_of_process = as_numbered(1), .command = "devices"}),
                              {.device = options.workers.device}),
                 [](int, int) { return std::string(); });
  int count = 0;
  const auto failure = worker.run([&](size_t, const nlohmann::json& event) {
    if (event["event"] == "devices") count = event.at("count").get<int>();
  });
  if (failure) return *failure;
  return std::min(2, count * options.workers.ranks_per_device);
}

std::vector<WorkerTask> tasks(const ProfileOptions& options, int ranks,
                              const std::string& partial) {
  nlohmann::json arguments{{"job", fs::absolute(options.job).string()},
                           {"partial", partial},
                           {"quick", options.quick},
                           {"tensor_parallel", options.tensor_parallel},
                           {"sharding", ""}};
  if (!options.sharding.empty()) arguments["sharding"] = fs::absolute(options.sharding).string();
  if (options.budget_s) arguments["budget_s"] = *options.budget_s;
  return make_tasks({.rank_of_process = as_numbered(ranks),
                     .command = "profile",
                     .arguments = std::move(arguments)});
}

std::optional<WorkersFailure> run_workers(const ProfileOptions& options,
                                          const std::string& partial) {
  const auto ranks = count_ranks(options);
  if (const auto* failure = std::get_if<WorkersFailure>(&ranks)) return *failure;
  ProgressLine line;
  Workers workers(with_options(tasks(options, std::get<int>(ranks), partial), options.workers),
                  [](int, int) { return std::string(); });
  return workers.run([&](size_t, const nlohmann::json& event) {
    if (event["event"] == "progress") {
      line.show(event.at("share").get<double>(), event.at("what").get<std::string>());
    } else if (event["event"] == "warning") {
      line.message(fmt::format("penstock: {}", event.at("message").get<std::string>()));
    }
  });
}

/// Operators are measured on one machine, by workers that this program starts.
void check_alone() {
  const std::optional<Launcher> launcher = find_launcher(process_environment());
  if (!launcher || launcher->world_size == 1) return;
  throw InputError(
      launcher->size_variable,
      fmt::format("is {}, and each of these processes would measure the same job",
                  launcher->world_size),
      fmt::format("Start penstock profile once, without {}: it starts --ranks workers itself.",
                  launcher->name));
}

/// Beside the profile; of what is no file, as /dev/stdout, among temporary files.
std::string partial_path(const fs::path& output) {
  std::error_code none;
  const fs::path file = fs::is_other(output, none)
                            ? fs::temp_directory_path() / fmt::format("penstock-{}", ::getpid())
                            : fs::absolute(written_path(output));
  return file.string() + ".partial";
}

/// Fills in `profile`, or says on standard error why it could not.
std::optional<WorkersFailure> measure(const ProfileOptions& options, const Graph& model,
                                      Profile& profile) {
  require_values(model);
  if (options.workers.device == "cpu") limit_onednn(model, false);
  const std::string partial = partial_path(options.output);
  const std::optional<WorkersFailure> failure = run_workers(options, partial);
  if (!failure) {
    profile = read_profile(partial);
    return failure;
  }
  fmt::print(stderr, "penstock: {}\n", failure->message);
  if (fs::exists(partial)) {
    fmt::print(stderr, "What was measured is kept in {}: the same command goes on from there.\n",
               partial);
  }
  return failure;
}

}  // namespace

int profile(const ProfileOptions& options) {
  check_flags(options);
  if (options.link) return measure_link(options);
  if (options.job.empty()) {
    throw InputError("profile", "there is no job to measure",
                     "Give JOB.yaml, or --link for the link between two ranks alone.");
  }
  check_alone();
  const Job job = read_job(options.job);
  const Graph model = read_model(job);
  Profile profile;
  if (options.workers.device == "estimate") {
    profile = estimated_profile(options, job, model);
  } else if (const auto failure = measure(options, model, profile)) {
    return failure->status;
  }
  write_file(options.output, to_json(profile, options.output));
  if (options.workers.device != "estimate") fs::remove(partial_path(options.output));
  const int top = options.top.value_or(options.verbose ? most_expensive : 0);
  fmt::print("{}{}", profile_report(profile, &model, top, terminal_columns()),
             ending({options.output}, {fmt::format("penstock plan {} --ranks 2 -o plan.yaml",
                                                   in_shell(options.output))}));
  return 0;
}

}  // namespace penstock::cli
