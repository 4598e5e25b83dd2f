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

/// Copies that a rank's process keeps for a partner, taken to be as large as its own.
constexpr int64_t partner_snapshots = 2;

void check_word(const std::string& how, std::initializer_list<std::string_view> known) {
  if (std::ranges::find(known, how) != known.end()) return;
  throw InputError("--survive", "'" + how + "' is not known",
                   fmt::format("Give one of {}.", fmt::join(known, ", ")));
}

/// Why the ranks cannot survive, whatever memory there is; "" where they can.
std::string obstacle(const ExecuteOptions& options, const std::optional<Launcher>& launcher,
                     const Plan& plan) {
  if (plan.job.forward_only) return "it is for training";
  if (options.survive == "peers" && (!launcher || plan.all_ranks() < 2))
    return "copies go to other processes, of which a launcher starts one for each rank";
  return "";
}

struct RankBytes {
  int64_t training = 0, snapshot = 0;
};

/// A spare may become any rank. `peak_bytes`: of the ranks of a replica.
RankBytes bytes_of(const Plan& plan, int rank, const std::vector<RankStateBytes>& states,
                   const std::vector<int64_t>& peak_bytes) {
  const size_t parts = peak_bytes.size() / states.size();
  RankBytes most;
  for (size_t place = 0; place < states.size(); ++place) {
    if (rank != kSpare && static_cast<size_t>(plan.place_of(rank).rank) != place) continue;
    const int64_t training =
        peak_bytes.empty() ? states[place].held_bytes : peak_bytes.at(parts * place);
    most = {std::max(most.training, training),
            std::max(most.snapshot, states[place].snapshot_bytes)};
  }
  return most;
}

bool may_survive(const ExecuteOptions& options) {
  return options.survive == "local" || options.survive == "peers";
}

void check_spares(const ExecuteOptions& options, const std::optional<Launcher>& launcher) {
  if (!options.spares) return;
  if (!may_survive(options))
    throw InputError("--spares", "only runs that survive failures have any",
                     "Add --survive local or peers, or leave it out.");
  if (!launcher)
    throw InputError("--spares",
                     "spares are processes that a launcher starts, and penstock was started alone",
                     "Start ranks and spares with torchrun, srun or mpirun, or leave it out.");
}

void check_shrink(const ExecuteOptions& options, const std::optional<Launcher>& launcher) {
  if (!options.shrink) return;
  if (!may_survive(options))
    throw InputError("--shrink", "only runs that survive failures go on with fewer ranks",
                     "Add --survive local or peers, or leave it out.");
  if (!launcher)
    throw InputError("--shrink", "processes of a launcher are lost, and penstock was started alone",
                     "Start the ranks with torchrun, srun or mpirun, or leave it out.");
  if (options.save.empty())
    throw InputError("--shrink", "another plan goes on from a checkpoint, and none is made",
                     "Add --save DIR, or leave it out.");
}

/// Why there is not enough of the machine's memory for these ranks together; "" where there is.
/// `on_gpus`: they train in memory of their own.
std::string shortage(const CheckedRun& checked, const std::vector<int>& ranks, int64_t copies,
                     const std::vector<int64_t>& peak_bytes, bool on_gpus) {
  int64_t training_bytes = 0, snapshot_bytes = 0;
  const auto states = state_bytes_of_ranks(checked.plan, checked.part, checked.slicing);
  for (const int rank : ranks) {
    const auto [trained, copied] = bytes_of(checked.plan, rank, states, peak_bytes);
    if (!on_gpus) training_bytes += trained;
    snapshot_bytes += copied;
  }
  snapshot_bytes *= copies;
  const int64_t available_bytes = available_memory_bytes();
  if (training_bytes + snapshot_bytes <= available_bytes) return "";
  const std::string training =
      on_gpus ? "" : fmt::format("{} to train and ", format_bytes(training_bytes));
  return fmt::format("the ranks need {}{} for {} copies of their state, but {} are available",
                     training, format_bytes(snapshot_bytes), copies, format_bytes(available_bytes));
}

}  // namespace

void count_snapshots(const std::string& how, const std::string& device, Job& job) {
  check_word(how, {"off", "local", "peers"});
  if (how == "off") return;
  if (device == layers_device)
    throw InputError("--survive", "a table of layers does not say what a copy of the state takes",
                     "Leave it out.");
  if (job.forward_only) throw InputError("--survive", "it is for training", "Leave it out.");
  if (device == "cpu")  // those of a GPU's ranks lie in the host's memory
    job.snapshots = most_snapshots + (how == "peers" ? partner_snapshots : 0);
}

Survival find_survival(const ExecuteOptions& options, const std::optional<Launcher>& launcher,
                       const CheckedRun& checked, bool saves,
                       const std::vector<int64_t>& peak_bytes) {
  check_word(options.survive, {"off", "local", "peers", "auto"});
  check_spares(options, launcher);
  check_shrink(options, launcher);
  if (options.survive == "off") return {};
  const bool peers = options.survive == "peers";
  const int64_t copies = most_snapshots - (saves ? 0 : 1) + (peers ? partner_snapshots : 0);
  std::string why_not = obstacle(options, launcher, checked.plan);
  if (why_not.empty())
    why_not = shortage(checked,
                       ranks_here(launcher, with_spares(rank_of_process(checked.plan),
                                                        options.spares.value_or(0))),
                       copies, peak_bytes, options.workers.device != "cpu");
  if (why_not.empty()) return {.survives = true, .peers = peers};
  if (options.survive != "auto")
    throw InputError("--survive", why_not,
                     "Leave it out: --save and --resume go on from checkpoints.");
  return {.why_not = "a failure of a rank ends the run (--survive auto): " + why_not};
}

}  // namespace penstock::cli
