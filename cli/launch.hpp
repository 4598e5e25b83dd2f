// Who starts the ranks: this program, one worker each, or torchrun, for which it is one rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/worker_protocol.hpp"

namespace penstock::cli {

/// This process's place in a run that torchrun has started.
struct Launcher {
  int rank = 0, world_size = 1, local_rank = 0, local_size = 1;
  std::string host;  // of the store
  int port = 0;
  bool hosts_store = false;  // the launcher already listens there
  std::string prefix;        // differs between restarts
};

/// From RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; nothing where
/// RANK is not set. Throws InputError for a variable that is missing or no number.
std::optional<Launcher> find_launcher();

/// One task for each worker that this process starts, all with the same arguments. Throws
/// InputError where the launcher started another number of processes than `ranks`.
std::vector<WorkerTask> make_tasks(const std::optional<Launcher>& launcher, int ranks,
                                   const std::string& command, const nlohmann::json& arguments);

}  // namespace penstock::cli
