#include "cli/inputs/survival.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "cli/workers/launch.hpp"
#include "launch/own_memory.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/rank_state.hpp"

namespace penstock::cli {

namespace {

void check_word(const std::string& how, std::initializer_list<std::string_view> known) {
  if (std::ranges::find(known, how) != known.end()) return;
  throw InputError("--survive", "'" + how + "' is not known",
                   fmt::format("Give one of {}.", fmt::join(known, ", ")));
}

/// Why the ranks cannot survive, whatever memory there is; "" where they can.
std::string obstacle(const ExecuteOptions& options, const std::optional<Launcher>& launcher,
                     const Plan& plan, bool script) {
  const Job& job = plan.job;
  if (job.forward_only || options.workers.device != "cpu") return "it is for training on CPUs";
  if (launcher && script)
    return "a script's ranks survive where penstock starts them itself, not " + launcher->name;
  return "";
}

/// Why there is not enough memory for these ranks together; "" where there is.
std::string shortage(const CheckedRun& checked, const std::vector<int>& ranks, bool saves,
                     const std::vector<int64_t>& peak_bytes) {
  int64_t training_bytes = 0, snapshot_bytes = 0;
  const auto states = state_bytes_of_ranks(checked.plan, checked.part, checked.slicing);
  for (const int rank : ranks) {
    const auto place = static_cast<size_t>(checked.plan.place_of(rank).rank);
    training_bytes += peak_bytes.empty() ? states[place].held_bytes : peak_bytes.at(place);
    snapshot_bytes += states[place].snapshot_bytes;
  }
  const int64_t copies = saves ? most_snapshots : most_snapshots - 1;
  snapshot_bytes *= copies;
  const int64_t available_bytes = available_memory_bytes();
  if (training_bytes + snapshot_bytes <= available_bytes) return "";
  return fmt::format(
      "the ranks need {} to train and {} for {} copies of their state, but {} are "
      "available",
      format_bytes(training_bytes), format_bytes(snapshot_bytes), copies,
      format_bytes(available_bytes));
}

}  // namespace

void count_snapshots(const std::string& how, const std::string& device, Job& job) {
  check_word(how, {"off", "local"});
  if (how == "off") return;
  if (device == layers_device)
    throw InputError("--survive", "a table of layers does not say what a copy of the state takes",
                     "Leave it out.");
  if (device != "cpu" || job.forward_only)
    throw InputError("--survive", "it is for training on CPUs", "Leave it out.");
  job.snapshots = most_snapshots;
}

Survival find_survival(const ExecuteOptions& options, const std::optional<Launcher>& launcher,
                       const CheckedRun& checked, bool saves, bool script,
                       const std::vector<int64_t>& peak_bytes) {
  check_word(options.survive, {"off", "local", "auto"});
  if (options.survive == "off") return {};
  std::string why_not = obstacle(options, launcher, checked.plan, script);
  if (why_not.empty())
    why_not =
        shortage(checked, ranks_here(launcher, rank_of_process(checked.plan)), saves, peak_bytes);
  if (why_not.empty()) return {.survives = true};
  if (options.survive == "local")
    throw InputError("--survive", why_not,
                     "Leave it out: --save and --resume go on from checkpoints.");
  return {.why_not = "a failure of a rank ends the run (--survive auto): " + why_not};
}

}  // namespace penstock::cli
