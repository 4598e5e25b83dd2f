// Who starts the ranks: this program, one worker each, or a launcher (launch/launcher.hpp), for
// which it is one rank.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/launcher.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock::cli {

/// The part that all tasks of a run have in common.
struct Launch {
  std::optional<Launcher> launcher;
  std::vector<int> rank_of_process;  // one for each process of the run: spares last
  std::string command;
  nlohmann::json arguments;
  Facts facts;
  double start_timeout_s = kStartTimeout_s;
};

/// Process i is rank i.
std::vector<int> as_numbered(int ranks);

/// In place of a rank.
inline constexpr int kSpare = -1;
std::vector<int> with_spares(std::vector<int> rank_of_process, int64_t spares);

/// Throws InputError where the launcher started another number of processes.
void check_size(const Launcher& launcher, int ranks, int spares = 0);

/// The ranks of this machine, and its spares: launchers number processes machine by machine. Throws
/// as check_size.
std::vector<int> ranks_here(const std::optional<Launcher>& launcher,
                            const std::vector<int>& rank_of_process);

/// One task for each worker that this process starts. Throws InputError where the launcher started
/// another number of processes.
std::vector<WorkerTask> make_tasks(const Launch& launch);

/// Is rank 0, which reports, one of these workers? Of a plan that names devices it is any of them.
bool has_rank_0(const std::vector<WorkerTask>& tasks);

/// Runs `body`. Where that throws InputError under a launcher, the other ranks are told, so that
/// they need not wait for this one; then it is thrown on.
void or_tell_others(const std::optional<Launcher>& launcher, const std::function<void()>& body);

}  // namespace penstock::cli
