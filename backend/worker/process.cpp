#include "backend/worker/process.hpp"

#include <ATen/Parallel.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launch/own_cores.hpp"
#include "launch/placement.hpp"

namespace penstock {

namespace {

int number_in(const std::filesystem::path& path, int otherwise) {
  int number = otherwise;
  std::ifstream(path) >> number;
  return number;
}

/// A core's folder links to that of its node.
int node_of_core(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.size() > 4 && name.starts_with("node")) return std::stoi(name.substr(4));
  }
  return 0;
}

/// The topology of these cores as Linux describes it; by default one node of single cores.
std::vector<LogicalCore> describe_cores(const std::set<int>& ids) {
  std::vector<LogicalCore> cores;
  for (const int id : ids) {
    const std::filesystem::path folder = "/sys/devices/system/cpu/cpu" + std::to_string(id);
    const int package = number_in(folder / "topology/physical_package_id", 0);
    const int core = number_in(folder / "topology/core_id", id);
    cores.push_back({id, package * (1 << 16) + core, node_of_core(folder)});
  }
  return cores;
}

/// The cores that each rank of this machine may use. A machine is identified by its name and the
/// launcher's number.
std::vector<CoreClaim> claims_of_machine(const WorkerTask& task, SharedStore& store,
                                         const std::set<int>& own) {
  std::vector<CoreClaim> claims(static_cast<size_t>(task.local_size), CoreClaim{own});
  if (!task.launched || task.local_size < 2) return claims;
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  const std::string place = std::string("cores/") + name + "/" + std::to_string(task.node) + "/";
  store.set(place + std::to_string(task.local_rank), nlohmann::json(own).dump());
  for (int rank = 0; rank < task.local_size; ++rank) {
    const std::string text = store.get(place + std::to_string(rank));
    claims[static_cast<size_t>(rank)].allowed = nlohmann::json::parse(text).get<std::set<int>>();
  }
  return claims;
}

void pin(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);  // a failure only costs speed
}

}  // namespace

int settle_process(const WorkerTask& task, SharedStore& store) {
  const std::vector<CoreClaim> claims = claims_of_machine(task, store, own_cores());
  std::set<int> all;
  for (const CoreClaim& claim : claims) all.insert(claim.allowed.begin(), claim.allowed.end());
  const std::vector<int> own = cores_of_rank(describe_cores(all), claims, task.local_rank);
  if (!own.empty()) pin(own);
  // A computing thread must not be preempted by threads that wake for a moment. On a GPU
  // the threads that wake are the host's own and NCCL's, which would inherit the policy.
  const sched_param parameter{};
  if (task.device == "cpu") sched_setscheduler(0, SCHED_BATCH, &parameter);
  at::set_num_threads(std::max(1, static_cast<int>(own.size())));
  at::set_num_interop_threads(1);
  return static_cast<int>(all.size());
}

}  // namespace penstock
